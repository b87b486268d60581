// What the ledger holds of each summary, and how much of it; a click writes the SELECT for it.
import { bytes, make, moment, number } from "./dom.js";
import { paced } from "./live.js";

const EVERY_MS = 30000;

export function catalogue(holder, live, mine, write) {
  let all = null, known = null;
  const body = make("tbody");
  const names = ["summary", "kind", "from (UTC)", "to (UTC)", "pieces", "size"];
  holder.replaceChildren(make("div", { class: "scroll", tabindex: "0" }, make("table", {},
    make("thead", {}, make("tr", {}, ...names.map((name, i) => make("th", { class: i > 3 ? "number" : "" }, name)))), body)));
  const show = paced(async () => {
    try {
      all = (await live.ask("/catalogue")).summaries;
      body.replaceChildren(...all.filter((one) => mine(one.name)).map((one) => make("tr", {},
        make("td", {}, make("button", { type: "button", onclick: () => write(one.name) }, one.name)),
        make("td", {}, one.kind), make("td", {}, moment(one.from)), make("td", {}, moment(one.to)),
        make("td", { class: "number" }, number(one.pieces)), make("td", { class: "number" }, bytes(one.bytes)))));
    } catch {
      known = null; // the next state asks again
    }
  }, EVERY_MS);
  const size = (pipeline) => all && all.reduce((sum, one) => sum + (one.pipeline === pipeline ? one.bytes : 0), 0);
  const heard = ({ pipelines }) => {
    const read = pipelines.reduce((sum, one) => sum + one.read, 0);
    if (known === read) return;
    known = read;
    show(pipelines.some((one) => one.read && !size(one.name))); // at once, until something is stored
  };
  return { show: () => show(true), size, heard };
}
