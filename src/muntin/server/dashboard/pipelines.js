// The pipelines of a ledger: what each does, what is wrong with it, and which one the page shows.
import { bytes, choice, duration, listing, make, moment, number, short } from "./dom.js";

const STATES = { unknown: "no batch yet", running: "running", idle: "idle", stale: "silent", failed: "failed", finished: "stopped" };
const LEVELS = { failed: "bad", stale: "bad", running: "good" };

export const ended = (pipeline) => pipeline.state === "failed" || pipeline.state === "finished";

// In a word, and how bad that is.
export function stateOf(pipeline) {
  const state = pipeline.state === "idle" && pipeline.committed_at == null ? "unknown" : pipeline.state;
  return [STATES[state] ?? state, LEVELS[state] ?? ""];
}

// How far the newest event is behind now; of one that has ended, or reads the past, when that was.
export function lag(pipeline, now) {
  if (pipeline.newest == null) return ["–", "newest event"];
  const behind = now - pipeline.newest;
  if (!ended(pipeline) && Math.abs(behind) < 86400e6) return [duration(Math.max(0, behind)), "behind (newest event)"];
  return [moment(pipeline.newest).slice(0, 16), "newest event (UTC)"];
}

export function troubles(pipeline) {
  const { webhook = {} } = pipeline.alerts ?? {};
  return [
    pipeline.state === "failed" ? `failed: ${pipeline.reason}` : "",
    pipeline.state === "stale" ? "its process says nothing any more: it may be gone" : "",
    pipeline.not_taken_over ? `the changed file is not taken over: ${pipeline.not_taken_over}` : "",
    pipeline.doubt ?? "",
    ...Object.entries(pipeline.failing).map(([query, { error }]) => `${query}: ${error}`),
    webhook.error ? `the webhook does not take alerts: ${webhook.error}` : "",
    pipeline.missing_batches ? `batches that are missing, as --append accepted: ${number(pipeline.missing_batches)}` : "",
    pipeline.missed ? `offsets of Kafka passed over, gone before they were read: ${number(pipeline.missed)}` : "",
  ].filter(Boolean);
}

// The list in the page's head.
export function chooser(holder, onchoice) {
  let shown = "";
  return (pipelines, chosen) => {
    const all = pipelines.map((p) => [p.name, LEVELS[p.state] === "good" || p.state === "idle" ? p.name : `${p.name} (${stateOf(p)[0]})`]);
    if (all.join() !== shown) {
      shown = all.join();
      holder.replaceChildren(all.length > 1 ? choice("pipeline", all, onchoice) : all[0]?.[0] ?? "");
    }
    const select = holder.querySelector("select");
    if (select) select.value = chosen;
  };
}

const HEAD = ["pipeline", "state", "heard of", "events a second", "newest event (UTC)", "behind", "read", "late", "rejected", "size"];

// All of them, a row each, where there are several.
export function overview(section, size, onchoice) {
  const [whole, fill] = listing(HEAD, 2, onchoice), wrong = make("ul", { class: "bad" });
  section.querySelector("div").replaceChildren(whole, wrong);
  return (state, chosen) => {
    section.hidden = state.pipelines.length < 2;
    const rows = fill(state.pipelines.map((pipeline) => {
      const behind = ended(pipeline) || pipeline.newest == null ? "–" : duration(Math.max(0, state.now - pipeline.newest));
      const stored = size(pipeline.name);
      return [pipeline.name, stateOf(pipeline)[0], pipeline.silent_us == null ? "–" : `${duration(pipeline.silent_us)} ago`,
        short(pipeline.events_per_second ?? 0), moment(pipeline.newest), behind, number(pipeline.read),
        number(pipeline.late), number(pipeline.rejected), stored == null ? "–" : bytes(stored)];
    }));
    for (const pipeline of state.pipelines) {
      const row = rows.get(pipeline.name);
      row.cells[1].className = stateOf(pipeline)[1];
      row.ariaCurrent = pipeline.name === chosen ? "true" : null;
    }
    const found = state.pipelines.flatMap((one) => troubles(one).map((text) => `${one.name}: ${text}`));
    wrong.hidden = !found.length;
    wrong.replaceChildren(...found.map((text) => make("li", {}, text)));
  };
}
