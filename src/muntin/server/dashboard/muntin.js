// The dashboard: puts the parts together and keeps them fed.
import { closings } from "./closings.js";
import { choice, duration, make } from "./dom.js";
import { admitted, theme } from "./entry.js";
import { Live } from "./live.js";
import { headline, load, openWindows } from "./load.js";
import { rejected } from "./rejected.js";
import { selectBox } from "./select_box.js";
import { trend } from "./trends.js";

const at = (id) => document.getElementById(id);
const inside = (id) => at(id).querySelector("div");
const connection = at("connection");
let stale = "", note = "", lostAt = null;

function say(state) {
  lostAt = state === "live" ? null : lostAt ?? (state === "lost" ? new Date().toLocaleTimeString() : null);
  connection.dataset.state = stale && state === "live" ? "wait" : state;
  connection.textContent = { wait: "connecting", live: stale || note || "live", lost: `connection lost at ${lostAt}, trying again` }[state];
  document.documentElement.classList.toggle("stale", state === "lost" || Boolean(stale));
}

const live = new Live((state) => { live.state = state; say(state); });

function pipelines(onchoice) {
  let shown = "";
  return (state) => {
    const all = state.pipelines.map((p) => p.name);
    if (all.join() === shown) return;
    shown = all.join();
    at("pipelines").replaceChildren(all.length > 1 ? choice("pipeline", all.map((n) => [n, n]), onchoice) : all[0] ?? "");
  };
}

async function panels(summaries) {
  const files = await live.ask("/panels");
  const kinds = new Map();
  for (const file of files) {
    const module = await import(`./panels/${file}`);
    kinds.set(file.replace(/\.js$/, ""), module.default);
  }
  for (const summary of summaries) {
    const panel = kinds.get(summary.kind);
    if (!panel) continue;
    const section = make("section");
    at("panels").append(section);
    panel(section, summary, live);
  }
}

async function start() {
  theme();
  const found = await admitted(live, "/summaries", say); // the names
  let pipeline = null;
  const parts = [headline(at("headline")), load(inside("load")), openWindows(inside("open"), live), rejected(inside("rejected"), live)];
  const choose = pipelines((name) => { pipeline = name; });
  live.subscribe({ state: true }, ({ state }) => {
    if (!state) return;
    choose(state);
    const one = state.pipelines.find((p) => p.name === pipeline) ?? state.pipelines[0];
    if (!one) return;
    if (state.pipelines.some((p) => p.spec !== found.specs[p.name])) return location.reload(); // other names
    stale = { failed: `failed: ${one.reason}`, stale: `stale: silent for ${duration(one.silent_us ?? 0)}` }[one.state] ?? "";
    note = one.not_taken_over ? `live; the changed file is not taken over: ${one.not_taken_over}`
      : { unknown: "live, no batch yet", finished: "live, pipeline finished",
        idle: one.committed_at == null ? "live, pipeline idle" : `live, pipeline idle: nothing new for ${duration(state.now - one.committed_at)}` }[one.state] ?? "";
    say(live.state);
    for (const part of parts) part(state, one);
  });
  live.open();
  selectBox(inside("select"), live, found);
  await Promise.allSettled([closings(inside("closings"), live), panels(found.summaries),
    ...found.queries.map((query) => trend(at("trends"), live, query))]);
}

start();
