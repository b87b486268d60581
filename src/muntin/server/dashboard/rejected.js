// Events that were late or not counted, and why.
import { make, number, refill, table } from "./dom.js";
import { paced } from "./live.js";

const SHOWN = 20;

export function rejected(holder, live) {
  let known = "", shown = null;
  const counts = make("p"), records = make("div");
  holder.replaceChildren(counts, records);
  const show = paced(async () => {
    const { name, rejected: any } = shown, path = `/rejected?pipeline=${encodeURIComponent(name)}&limit=${SHOWN}`;
    try {
      const found = any ? (await live.ask(`${path}&newest_first=true`)).rejected : [];
      if (shown.name !== name) return;
      if (any) refill(records, table(["reason", "detail", "record"], found.map((r) => [r.reason, r.detail, r.raw])));
      else records.replaceChildren(make("p", { class: "note" }, "nothing was rejected"));
    } catch {
      known = ""; // ask again
    }
  });
  return (state, pipeline) => {
    counts.textContent = `${number(pipeline.late)} late (counted in their pane, their window revised), ` +
      `${number(pipeline.rejected)} rejected, of ${number(pipeline.read)}`;
    const now = `${pipeline.rejected} of ${pipeline.name}`, other = shown?.name !== pipeline.name;
    shown = pipeline;
    if (now === known) return;
    known = now;
    if (other) records.replaceChildren();
    show(other);
  };
}
