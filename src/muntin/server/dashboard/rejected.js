// Events that were late or not counted, and why.
import { make, number, table } from "./dom.js";

const SHOWN = 20;

export function rejected(holder, live) {
  let known = -1;
  const counts = make("p"), records = make("div");
  holder.replaceChildren(counts, records);
  return async (state, pipeline) => {
    counts.textContent = `${number(pipeline.late)} late (counted in their pane, their window revised), ` +
      `${number(pipeline.rejected)} rejected, of ${number(pipeline.read)}`;
    if (pipeline.rejected === known) return;
    known = pipeline.rejected;
    if (!known) return void records.replaceChildren(make("p", { class: "note" }, "nothing was rejected"));
    const name = encodeURIComponent(pipeline.name);
    try {
      const ask = (after) => live.ask(`/rejected?pipeline=${name}&limit=${SHOWN}&after=${after}`);
      let found = (await ask(Math.max(0, known - SHOWN))).rejected;
      if (!found.length) found = (await ask(0)).rejected; // only a part of them was kept
      records.replaceChildren(table(["reason", "detail", "record"],
        found.reverse().map((r) => [r.reason, r.detail, r.raw])));
    } catch {
      known = -1; // ask again
    }
  };
}
