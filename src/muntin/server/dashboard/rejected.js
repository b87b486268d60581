// Events that were late or not counted, and why.
import { make, number, refill, table } from "./dom.js";

const SHOWN = 20;

export function rejected(holder, live) {
  let known = "";
  const counts = make("p"), records = make("div");
  holder.replaceChildren(counts, records);
  return async (state, pipeline) => {
    counts.textContent = `${number(pipeline.late)} late (counted in their pane, their window revised), ` +
      `${number(pipeline.rejected)} rejected, of ${number(pipeline.read)}`;
    const last = pipeline.rejected, now = `${last} of ${pipeline.name}`;
    if (now === known) return;
    known = now;
    if (!last) return void records.replaceChildren(make("p", { class: "note" }, "nothing was rejected"));
    const name = encodeURIComponent(pipeline.name);
    try {
      const ask = (after) => live.ask(`/rejected?pipeline=${name}&limit=${SHOWN}&after=${after}`);
      let found = (await ask(Math.max(0, last - SHOWN))).rejected;
      if (!found.length) found = (await ask(0)).rejected; // only a part of them was kept
      if (now === known) refill(records, table(["reason", "detail", "record"],
        found.reverse().map((r) => [r.reason, r.detail, r.raw])));
    } catch {
      if (now === known) known = ""; // ask again
    }
  };
}
