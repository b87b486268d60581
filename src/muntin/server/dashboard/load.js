// The figures that are read at a glance, the load over time, and the open windows.
import { lines } from "./charts.js";
import { bytes, drawer, duration, make, moment, number, short } from "./dom.js";
import { paced } from "./live.js";
import { ended, lag, stateOf, troubles } from "./pipelines.js";

const PER = [["events a second", 1], ["events a minute", 60], ["events an hour", 3600], ["events a day", 86400]];
const PARTITIONS = 12; // shown of a topic's
const KEPT = 600; // readings of the load, where a ledger has no panes to tell it

function figure(value, name, level = "") {
  return make("div", { class: `figure ${level}` }, make("b", {}, value), make("span", {}, name));
}

export function headline(holder, size) {
  const figures = make("div", { class: "figures" }), wrong = make("ul", { class: "bad", hidden: true });
  holder.replaceChildren(figures, wrong);
  return (state, pipeline) => {
    const open = Object.values(pipeline.open)[0];
    const slowed = open && open.length_us > open.usual_us;
    const waiting = Object.values(pipeline.lag).flatMap(Object.values).reduce((a, b) => a + b, 0);
    const [said, level] = stateOf(pipeline);
    const silent = pipeline.silent_us == null ? "pipeline" : `${ended(pipeline) ? "" : "heard of "}${duration(pipeline.silent_us)} ago`;
    const stored = size(pipeline.name);
    figures.replaceChildren(
      figure(said, silent, level),
      figure(short(pipeline.events_per_second ?? 0), "events a second"),
      figure(...lag(pipeline, state.now)),
      ...(Object.keys(pipeline.lag).length ? [figure(short(waiting), "records waiting", waiting ? "warn" : "")] : []),
      figure(pipeline.batch_seconds == null ? "–" : duration(pipeline.batch_seconds * 1e6), "last batch took",
        pipeline.batch_seconds * 1e6 > Math.max(2 * pipeline.trigger_us, 1e6) ? "warn" : ""),
      figure(open ? duration(open.length_us) : "–", slowed ? "window, slowed down" : "window", slowed ? "warn" : ""),
      figure(short(pipeline.read), "events read"),
      figure(short(pipeline.late), "late", pipeline.late ? "warn" : ""),
      figure(short(pipeline.rejected), "rejected", pipeline.rejected ? "bad" : ""),
      figure(stored == null ? "–" : bytes(stored), "in the ledger"),
    );
    const found = troubles(pipeline);
    wrong.hidden = !found.length;
    wrong.replaceChildren(...found.map((text) => make("li", {}, text)));
  };
}

// Events a second of each point. The stream began within the first and has come so far in the last: these
// count for the part of them that is known to have passed, and are left out where that is too little of them.
export function rates({ width_us: width, from, to, points }, newest) {
  const found = [];
  points.forEach(([start, events]) => {
    const first = start <= from, until = Math.min(start + width, newest ?? to);
    if (points.length > 3 && (first || until - start < width / 2)) return;
    const before = found.at(-1);
    if (before && start - before[0] > width) found.push([before[0] + width, 0], [start - width, 0]);
    found.push([start, (1e6 * events) / Math.max(1e6, until - (first ? from : start))]);
  });
  return found;
}

// Events by event time, as far back as the ledger goes.
export function load(holder, live, range) {
  let found = null, asked = "", shown = null, live_points = [];
  const draw = drawer(() => {
    if (!found) return;
    const { width_us: width } = found, points = rates(found, found.newest);
    const drawn = points.length ? points : live_points;
    const most = drawn.reduce((high, [, rate]) => Math.max(high, rate), 0);
    const [unit, seconds] = PER.find(([, length]) => most * length >= 1) ?? PER.at(-1);
    lines(holder, [{ name: unit, points: drawn.map(([at, rate]) => [at, rate * seconds]) }],
      { area: true, unit: `${unit}, by ${duration(width)} of event time`, zoom: range.zoom });
  });
  const path = () => {
    const [start, end] = range.ends();
    return `/history?${new URLSearchParams({ pipeline: shown.name, ...(start && { start }), ...(end && { end }) })}`;
  };
  const ask = paced(async () => {
    const wanted = path(), of = wanted + shown.read, { name, newest } = shown; // as of then: more comes meanwhile
    try {
      const told = await live.ask(wanted);
      if (shown.name !== name) return; // another pipeline is shown since
      found = { ...told, newest };
      asked = of;
      draw();
    } catch { /* the next state asks again */ }
  });
  range.onchange(() => shown && ask(true));
  new ResizeObserver(draw).observe(holder);
  return (state, pipeline) => {
    if (shown && shown.name !== pipeline.name) {
      live_points = [];
      found = null;
      holder.replaceChildren();
    }
    shown = pipeline;
    if (pipeline.events_per_second != null) live_points = [...live_points, [state.now, pipeline.events_per_second]].slice(-KEPT);
    if (asked !== path() + pipeline.read) ask();
  };
}

// A bar of how much of the most that there can be; no bar where there is no limit.
function meter(name, value, most, text, warns = true) {
  const part = most ? value / most : 0;
  const bar = make("i", { class: !warns ? "" : part > 0.95 ? "bad" : part > 0.8 ? "warn" : "" });
  bar.style.width = `${Math.min(100, 100 * part)}%`;
  return make("div", { class: "meter" }, make("p", {}, make("span", {}, name), make("span", {}, text)),
    most == null ? null : make("div", {}, bar));
}

// Records of each partition that were not read yet, the worst first.
export function waiting(holder) {
  return (state, pipeline) => {
    const all = Object.entries(pipeline.lag).flatMap(([topic, partitions]) =>
      Object.entries(partitions).map(([partition, records]) => [`${topic}, partition ${partition}`, records]));
    holder.parentElement.hidden = !all.length;
    all.sort(([, a], [, b]) => b - a);
    const most = Math.max(1, ...all.map(([, records]) => records));
    const more = all.slice(PARTITIONS), rest = more.reduce((sum, [, records]) => sum + records, 0);
    holder.replaceChildren(
      ...all.slice(0, PARTITIONS).map(([name, records]) => meter(name, records, most, number(records), false)),
      ...(more.length ? [make("p", { class: "note" }, `and ${number(rest)} in ${more.length} more partitions`)] : []));
  };
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
    holder.parentElement.hidden = !Object.keys(pipeline.open).length;
    for (const [name, open] of Object.entries(pipeline.open)) {
      const { body, note, slower, usual } = part(name);
      const floats = open.kind === "floating";
      const may = floats && live.rights.includes("command");
      slower.hidden = usual.hidden = !may;
      slower.ariaDisabled = open.length_us >= open.limit_us; // and not disabled: it keeps the focus
      usual.ariaDisabled = open.length_us <= open.usual_us;
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
