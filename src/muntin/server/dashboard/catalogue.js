// What the ledger holds of each summary, and how much of it; a click writes the SELECT for it.
import { bytes, listing, moment, number } from "./dom.js";
import { paced } from "./live.js";

export function catalogue(holder, live, mine, write) {
  let all = null, known = null;
  const [whole, fill] = listing(["summary", "kind", "from (UTC)", "to (UTC)", "pieces", "size"], 4, write);
  holder.replaceChildren(whole);
  const show = paced(async () => {
    try {
      all = (await live.ask("/catalogue")).summaries;
      fill(all.filter((one) => mine(one.name)).map((one) =>
        [one.name, one.kind, moment(one.from), moment(one.to), number(one.pieces), bytes(one.bytes)]));
    } catch {
      known = null; // the next state asks again
    }
  });
  const size = (pipeline) => all && all.reduce((sum, one) => sum + (one.pipeline === pipeline ? one.bytes : 0), 0);
  const heard = ({ pipelines }) => {
    const read = pipelines.reduce((sum, one) => sum + one.read, 0);
    if (known === read) return;
    known = read;
    show();
  };
  return { show: () => show(true), size, heard };
}
