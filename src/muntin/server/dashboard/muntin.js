// The dashboard: puts the parts together and keeps them fed.
import { alerts } from "./alerts.js";
import { catalogue } from "./catalogue.js";
import { closings } from "./closings.js";
import { choice, duration, make } from "./dom.js";
import { admitted, theme } from "./entry.js";
import { Live } from "./live.js";
import { headline, load, openWindows } from "./load.js";
import { Range } from "./range.js";
import { rejected } from "./rejected.js";
import { selectBox } from "./select_box.js";
import { trend } from "./trends.js";

const at = (id) => document.getElementById(id);
const inside = (id) => at(id).querySelector("div");
const connection = at("connection");
let stale = "", compiling = "", note = "", lostAt = null;

function say(state) {
  lostAt = state === "live" ? null : lostAt ?? (state === "lost" ? new Date().toLocaleTimeString() : null);
  connection.dataset.state = (stale || compiling) && state === "live" ? "wait" : state;
  connection.textContent = { wait: "connecting", live: stale || compiling || note || "live", lost: `connection lost at ${lostAt}, trying again` }[state];
  document.documentElement.classList.toggle("stale", state === "lost" || Boolean(stale));
}

const live = new Live((state) => { live.state = state; say(state); });

const STOPPED = { failed: "failed", stale: "silent", finished: "stopped", unknown: "no batch yet" };

// Which pipeline is shown; of the others, which do not run.
function pipelines(onchoice) {
  let shown = "";
  return (state) => {
    const all = state.pipelines.map((p) => [p.name, p.name + (STOPPED[p.state] ? ` (${STOPPED[p.state]})` : "")]);
    if (all.join() === shown) return;
    shown = all.join();
    const before = at("pipelines").querySelector("select")?.value ?? all[0]?.[0];
    const select = choice("pipeline", all, onchoice);
    at("pipelines").replaceChildren(all.length > 1 ? select : all[0]?.[0] ?? "");
    select.value = before;
  };
}

async function panels(summaries) {
  const files = new Set(await live.ask("/panels"));
  const shown = summaries.filter((summary) => files.has(`${summary.kind}.js`));
  const modules = await Promise.all(shown.map(({ kind }) => import(`./panels/${kind}.js`)));
  for (const [i, summary] of shown.entries()) {
    const section = make("section", { "data-pipeline": summary.pipeline });
    at("panels").append(section);
    modules[i].default(section, summary, live);
  }
}

async function start() {
  theme();
  const found = await admitted(live, "/summaries", say); // the names
  let pipeline = null;
  const of = new Map(found.summaries.map((summary) => [summary.name, summary.pipeline]));
  const mine = (summary) => pipeline == null || of.get(summary) === pipeline;
  const range = new Range(at("range"));
  const statement = selectBox(inside("select"), live, found);
  const inLedger = catalogue(inside("catalogue"), live, mine, (name) => statement.ask(found.summaries.find((s) => s.name === name)));
  const parts = [headline(at("headline"), inLedger.size), alerts(at("alerts")), load(inside("load"), live, range),
    openWindows(inside("open"), live), rejected(inside("rejected"), live), inLedger.heard];
  const show = (name, newest) => {
    pipeline = name;
    range.newest = newest;
    for (const part of document.querySelectorAll("[data-pipeline]")) part.hidden = part.dataset.pipeline !== name;
    inLedger.show();
    range.changed();
  };
  let last = { pipelines: [] };
  const choose = pipelines((name) => show(name, last.pipelines.find((p) => p.name === name)?.newest));
  live.subscribe({ state: true }, ({ state }) => {
    if (!state) return;
    choose(state);
    last = state;
    compiling = state.compiling ? "compiling kernels, once per machine" : "";
    say(live.state);
    const one = state.pipelines.find((p) => p.name === pipeline) ?? state.pipelines[0];
    if (!one) return;
    if (one.name !== pipeline) show(one.name, one.newest);
    range.newest = one.newest;
    if (state.pipelines.some((p) => p.spec !== found.specs[p.name])) return location.reload(); // other names
    stale = { failed: `failed: ${one.reason}`, stale: `stale: silent for ${duration(one.silent_us ?? 0)}` }[one.state] ?? "";
    note = one.not_taken_over ? `live; the changed file is not taken over: ${one.not_taken_over}`
      : { unknown: "live, no batch yet", finished: "live, pipeline finished",
        idle: one.committed_at == null ? "live, pipeline idle" : `live, pipeline idle: nothing new for ${duration(state.now - one.committed_at)}` }[one.state] ?? "";
    say(live.state);
    at("closings").hidden = !Object.keys(one.open).length; // no windows, none that close
    for (const part of parts) part(state, one);
  });
  live.open();
  const keys = found.summaries.flatMap((s) => [...s.keys.flat(), ...s.by]);
  await Promise.allSettled([closings(inside("closings"), live, range, mine), panels(found.summaries),
    ...found.queries.map((query) => trend(at("trends"), live, query, range, keys))]);
  if (pipeline != null) show(pipeline, range.newest);
}

start();
