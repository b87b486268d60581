// What was sent against what pushing every change would have cost: two courses over time.
import { lines } from "/static/charts.js";
import { drawer } from "/static/dom.js";

const KEPT = 1200; // points; from then on every second one of the older half goes
const PAUSE_MS = 1000;

// Points keep their ends and the newest half.
function thinned(points) {
  const half = points.length >> 1;
  return points.filter((_, i) => i >= half || i % 2 === 0);
}

export function costs(bytes, messages, pace) {
  const idle = pace.findIndex((one) => one.sent_messages || one.naive_messages); // before the first site
  let points = pace.slice(idle < 0 ? -1 : Math.max(0, idle - 1)).map((one) => [Date.parse(one.at), one]);
  const series = (what) => ["sent", "naive"].map((name) => ({
    name: name === "sent" ? "sent" : "pushing every change (naive)",
    points: points.map(([ms, one]) => [ms * 1000, one[`${name}_${what}`]]),
  }));
  const draw = drawer(() => {
    lines(bytes, series("bytes"), { unit: "bytes", label: "bytes sent, and naive" });
    lines(messages, series("messages"), { unit: "messages", label: "messages sent, and naive" });
  });
  new ResizeObserver(draw).observe(bytes);
  new ResizeObserver(draw).observe(messages);
  return ({ traffic }, now) => {
    if (points.length && now - points.at(-1)[0] < PAUSE_MS) return;
    const { sent, naive } = traffic;
    points.push([now, { sent_messages: sent.messages, naive_messages: naive.messages,
      sent_bytes: sent.bytes, naive_bytes: naive.bytes }]);
    if (points.length > KEPT) points = thinned(points);
    draw();
  };
}
