// Why windows closed, over time. Capacity closings mean more keys than was planned for.
import { columns, key } from "./charts.js";
import { drawer, duration, make, moment, number } from "./dom.js";
import { caughtUp } from "./live.js";

const SHOWN = 80;
const COLOUR = { full: "var(--one)", capacity: "var(--bad)", end: "var(--three)", late: "var(--two)" };
const MEANS = { full: "full in time", capacity: "capacity reached", end: "end of data", late: "late events between two windows" };

export function closings(holder, live, range, closing) {
  const chart = make("div", { class: "chart" }), note = make("p", { class: "note", role: "status" });
  holder.replaceChildren(chart, key(Object.values(MEANS), Object.values(COLOUR)), note);
  const windows = new Map();
  let shownOf = "";
  const draw = drawer(() => {
    const [from, until] = range.ends();
    const shown = [...windows.values()].filter((w) => (!from || w.start >= from) && (!until || w.start < until))
      .sort((a, b) => (a.start < b.start ? -1 : 1)).slice(-SHOWN);
    columns(chart, shown.map((w) => ({
      value: w.events, colour: COLOUR[w.reason] ?? "var(--soft)", name: moment(w.start),
      title: `${w.summary} ${moment(w.start)}, ${duration((new Date(w.end) - new Date(w.start)) * 1000)}: ` +
        `${MEANS[w.reason] ?? w.reason}, ${number(w.events)} events, ${number(w.late)} late`,
    })), { label: "events of each closed window, coloured by why it closed", unit: "events a window" });
    const overloaded = shown.filter((w) => w.reason === "capacity").length;
    const revised = shown.filter((w) => w.revision > 0).length;
    note.textContent = !shown.length ? "no window has closed yet" :
      `events a window; ${overloaded} of the last ${shown.length} closed because a key was full` +
      (revised ? `, ${revised} were revised by late events` : "");
    note.classList.toggle("warn", overloaded > shown.length / 4);
  });
  new ResizeObserver(draw).observe(chart);
  const take = (window) => {
    if (!closing().includes(window.summary)) return;
    windows.set(`${window.summary} ${window.start}`, window);
    if (windows.size > 10 * SHOWN) windows.delete(windows.keys().next().value);
    draw();
  };
  const asking = caughtUp(() => {
    const [start, end] = range.ends();
    const names = closing();
    if (names.join() !== shownOf) { // of another pipeline: the one before is not shown until it is known
      shownOf = names.join();
      windows.clear();
      draw();
    }
    const asked = (summary) => new URLSearchParams({ summary, newest_first: true, limit: SHOWN, ...(start && { start }), ...(end && { end }) });
    return Promise.all(names.map((name) => live.ask(`/windows?${asked(name)}`)));
  }, (found) => {
    windows.clear();
    found.forEach((one) => one.windows.forEach(take));
    draw();
  }, take);
  const fill = () => asking.fill().catch((problem) => { note.textContent = problem.message; });
  range.onchange(fill);
  live.subscribe({ windows: true }, ({ type, window }) => type === "gap" ? fill() : window && asking.told(window), null, fill);
}
