// The figures that are read from across the room, the load over time, and the open windows.
import { lines } from "./charts.js";
import { drawer, duration, make, moment, number, short } from "./dom.js";

const KEPT = 600; // readings of the load; older ones go

function figure(value, name, level = "") {
  return make("div", { class: `figure ${level}` }, make("b", {}, value), make("span", {}, name));
}

// Where events are of today, how far behind now; else how far the watermark is behind the newest.
function lag(pipeline, now) {
  if (pipeline.newest == null) return ["–", "lag"];
  const behind = now - pipeline.newest;
  if (Math.abs(behind) < 86400e6) return [duration(Math.max(0, behind)), "newest event is old"];
  return [moment(pipeline.newest).slice(0, 16), "newest event (UTC)"];
}

export function headline(holder) {
  return (state, pipeline) => {
    const open = Object.values(pipeline.open)[0];
    const slowed = open && open.length_us > open.usual_us;
    holder.replaceChildren(
      figure(short(pipeline.events_per_second ?? 0), "events a second"),
      figure(...lag(pipeline, state.now)),
      figure(pipeline.batch_seconds == null ? "–" : duration(pipeline.batch_seconds * 1e6), "last batch took",
        pipeline.batch_seconds * 1e6 > Math.max(2 * pipeline.trigger_us, 1e6) ? "warn" : ""),
      figure(open ? duration(open.length_us) : "–", slowed ? "window, slowed down" : "window", slowed ? "warn" : ""),
      figure(short(pipeline.read), "events read"),
      figure(short(pipeline.late), "late", pipeline.late ? "warn" : ""),
      figure(short(pipeline.rejected), "rejected", pipeline.rejected ? "bad" : ""),
    );
  };
}

export function load(holder) {
  const seen = [];
  const clock = (ms) => new Date(ms).toLocaleTimeString();
  const draw = drawer(() =>
    lines(holder, [{ name: "events a second", points: seen }], { area: true, time: clock }));
  new ResizeObserver(draw).observe(holder);
  return (state, pipeline) => {
    if (pipeline.events_per_second == null) return;
    seen.push([state.now / 1000, pipeline.events_per_second]);
    if (seen.length > KEPT) seen.shift();
    draw();
  };
}

function meter(name, value, most, text, warns = true) {
  const part = most ? value / most : 0;
  const bar = make("i", { class: !warns ? "" : part > 0.95 ? "bad" : part > 0.8 ? "warn" : "" });
  bar.style.width = `${Math.min(100, 100 * part)}%`;
  return make("div", { class: "meter" }, make("p", {}, make("span", {}, name), make("span", {}, text)),
    make("div", {}, bar));
}

export function openWindows(holder, live) {
  const said = new Map();
  const parts = new Map();
  const ask = async (type, summary) => {
    try {
      const answer = (await live.command(type, summary))[summary];
      said.set(summary, answer.done ? `windows are ${duration(answer.length_us)} long now` : answer.why);
    } catch (problem) {
      said.set(summary, problem.message);
    }
  };
  const part = (name) => {
    if (!parts.has(name)) { // buttons stay, so that the keyboard's place is not lost
      const body = make("div"), note = make("p", { class: "note", role: "status" });
      const slower = make("button", { type: "button", onclick: () => ask("slow_down", name) }, "slow down");
      const usual = make("button", { type: "button", onclick: () => ask("resume", name) }, "resume");
      const whole = make("div", {}, body, slower, " ", usual, note);
      parts.set(name, { whole, body, note, slower, usual });
      holder.append(whole);
    }
    return parts.get(name);
  };
  return (state, pipeline) => {
    for (const [name, { whole }] of parts) if (!(name in pipeline.open)) { whole.remove(); parts.delete(name); }
    if (!Object.keys(pipeline.open).length && !holder.children.length) holder.textContent = "no windows are declared";
    for (const [name, open] of Object.entries(pipeline.open)) {
      const { body, note, slower, usual } = part(name);
      const floats = open.kind === "floating";
      const may = floats && live.rights.includes("command");
      slower.hidden = usual.hidden = !may;
      slower.disabled = open.length_us >= open.limit_us;
      usual.disabled = open.length_us <= open.usual_us;
      const begun = open.start == null ? 0 : Math.max(0, (pipeline.newest ?? open.start) - open.start);
      const factor = open.length_us / open.usual_us;
      const rows = Object.entries(open.fill).map(([key, rows]) =>
        meter(key, rows, open.capacity, open.capacity ? `${number(rows)} of ${number(open.capacity)}` : number(rows)));
      body.replaceChildren(
        make("p", {}, make("b", {}, name), ` ${open.kind}, ${duration(open.length_us)}`,
          factor > 1 ? make("span", { class: "warn" }, ` (${factor}× the usual)`) : null,
          open.start == null ? "" : `, since ${moment(open.start)}`),
        meter("time", begun, open.length_us, `${duration(Math.min(begun, open.length_us))} of ${duration(open.length_us)}`, false),
        ...rows);
      note.textContent = said.get(name) ?? "";
    }
  };
}
