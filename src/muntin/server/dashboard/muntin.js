// The dashboard: puts the parts together and keeps them fed.
import { alerts } from "./alerts.js";
import { catalogue } from "./catalogue.js";
import { closings } from "./closings.js";
import { duration, make, moment, namingOf } from "./dom.js";
import { admitted, theme } from "./entry.js";
import { Live } from "./live.js";
import { headline, load, openWindows, waiting } from "./load.js";
import { pack } from "./packing.js";
import { chooser, overview } from "./pipelines.js";
import { Range } from "./range.js";
import { rejected } from "./rejected.js";
import { selectBox } from "./select_box.js";
import { trend } from "./trends.js";

const at = (id) => document.getElementById(id);
const inside = (id) => at(id).querySelector("div");
const connection = at("connection");
let said = ["live", "live"], stale = false, unread = false, lostAt = null;

function say(state) {
  lostAt = state === "live" ? null : lostAt ?? (state === "lost" ? moment(Date.now() * 1000).slice(11) : null);
  const [level, text] = {
    wait: ["wait", "connecting"], live: said,
    lost: ["lost", live.why || `connection lost at ${lostAt} UTC, trying again`],
  }[state];
  connection.ariaLive = level === connection.dataset.state ? "off" : "polite"; // seconds that pass are not read out
  connection.dataset.state = level;
  if (connection.textContent !== text) connection.textContent = text;
  document.documentElement.classList.toggle("stale", stale);
  document.documentElement.classList.toggle("lost", state === "lost" || unread); // nothing is of now
}

// What stands beside the connection of the pipeline that is shown; the headline says more.
function about(state, one) {
  if (one.state === "failed") return ["bad", "pipeline failed"];
  if (one.state === "stale") return ["wait", `silent for ${duration(one.silent_us ?? 0)}`];
  if (state.compiling) return ["wait", "compiling kernels, once per machine"];
  if (one.not_taken_over) return ["wait", "live; the changed file is not taken over"];
  if (one.state === "finished") return ["still", "pipeline stopped"];
  if (one.committed_at == null) return ["live", "live, no batch yet"];
  if (one.state === "idle") return ["live", `live, pipeline idle: nothing new for ${duration(state.now - one.committed_at)}`];
  return ["live", "live"];
}

const live = new Live((state) => {
  live.state = state;
  if (state !== "live") say(state); // until the state comes, what is shown is that of before
});

async function panels(summaries, files) {
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
  pack(at("board"));
  const found = await admitted(live, "/summaries", say); // the names
  const files = live.ask("/panels").then((names) => new Set(names));
  const names = Object.keys(found.specs);
  const asked = () => names.find((name) => location.hash === `#${encodeURIComponent(name)}` || location.hash === `#${name}`);
  let pipeline = asked() ?? names[0] ?? null, last = { pipelines: [] };
  const of = new Map(found.summaries.map((summary) => [summary.name, summary.pipeline]));
  const closing = () => found.summaries.filter((s) => s.windows && s.pipeline === pipeline).map((s) => s.name);
  const range = new Range(at("range"));
  const statement = selectBox(inside("select"), live, found);
  const inLedger = catalogue(inside("catalogue"), live, (summary) => of.get(summary) === pipeline,
    (name) => statement.ask(found.summaries.find((s) => s.name === name)));
  const parts = [headline(at("headline"), inLedger.size), alerts(at("alerts")), load(inside("load"), live, range),
    openWindows(inside("open"), live), waiting(inside("waiting")), rejected(inside("rejected"), live), inLedger.heard];
  const columns = namingOf(found.summaries);
  const built = new Set();

  // Panels and trends of a pipeline, once it is shown: what nobody looks at is not asked for, nor is
  // what its first batch may have to wait for, as both need kernels that are compiled.
  async function build(name) {
    const one = last.pipelines.find((p) => p.name === name);
    if (one?.committed_at == null || built.has(name)) return;
    built.add(name);
    const theirs = (all) => all.filter((one) => one.pipeline === name);
    for (const query of theirs(found.queries)) trend(at("trends"), live, query, range, columns);
    await Promise.allSettled([files.then((known) => panels(theirs(found.summaries), known))]);
    hide();
  }

  function hide() {
    for (const part of document.querySelectorAll("[data-pipeline]")) part.hidden = part.dataset.pipeline !== pipeline;
  }

  function show(name) {
    pipeline = name;
    history.replaceState(null, "", `#${encodeURIComponent(name)}`);
    statement.offer(name);
    hide();
    tell();
    inLedger.show();
    range.turn(last.pipelines.find((p) => p.name === name)?.newest ?? null);
  }

  const choose = chooser(at("pipelines"), show), all = overview(at("overview"), inLedger.size, show);

  function tell() {
    choose(last.pipelines, pipeline);
    all(last, pipeline);
    const one = last.pipelines.find((p) => p.name === pipeline);
    said = one ? about(last, one) : ["live", "live, no pipeline yet"];
    stale = one?.state === "failed" || one?.state === "stale";
    say(live.state);
    if (!one) return;
    range.newest = one.newest;
    at("closings").hidden = !closing().length;
    for (const part of parts) part(last, one);
    build(pipeline);
  }

  statement.offer(pipeline);
  live.subscribe({ state: true }, ({ state, error }) => {
    unread = Boolean(error);
    if (error) {
      said = ["bad", error.message];
      say(live.state);
    }
    if (!state) return;
    const there = new Map(state.pipelines.map((p) => [p.name, p.spec]));
    const gone = last.pipelines.some((p) => !there.has(p.name));
    if (gone || [...there].some(([name, spec]) => spec !== found.specs[name])) return location.reload(); // other names
    const known = state.pipelines.some((p) => p.name === pipeline);
    const read = (all) => all.pipelines.find((p) => p.name === pipeline)?.read ?? 0;
    const back = read(state) < read(last);
    last = state;
    if (known || !state.pipelines.length) tell();
    else show(state.pipelines[0].name);
    if (back) range.changed(); // the ledger is another one now, or a backup: what it lacks is not shown
  });
  live.open();
  closings(inside("closings"), live, range, closing);
  addEventListener("hashchange", () => asked() && show(asked()));
}

start();
