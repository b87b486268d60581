// Each site: what it does, how far its constraint is from breaking, and what it has sent.
import { make, moment, number, short } from "/static/dom.js";
import { times } from "./validity.js";

const LEVELS = { calm: "good", missing: "bad", joining: "warn", alerted: "warn", watching: "warn" };
const HEADS = [["site"], ["state"], ["slack"], ["newest unit (UTC)"], ["objects", 1], ["messages", 1], ["naive", 1],
  ["bytes", 1], ["naive", 1], ["saved", 1]];

function stateOf(site) {
  if (!site.connected) {
    const state = make("span", { class: "state off bad" }, site.missing ? "missing" : "away");
    return site.problem ? make("span", {}, state, make("p", { class: "note" }, site.problem)) : state;
  }
  return make("span", { class: `state ${LEVELS[site.phase] ?? ""}` }, site.phase);
}

function slack(site, most) {
  if (site.slack == null) return "–";
  const bar = make("i", { class: site.slack < 0 ? "bad" : "" });
  bar.style.width = `${most ? Math.min(100, (100 * Math.max(0, site.slack)) / most) : 0}%`;
  return make("div", { class: "slack", title: "how far its constraint is from breaking" },
    make("b", { class: site.slack < 0 ? "warn" : "" }, number(site.slack)), make("div", { class: "meter" }, make("div", {}, bar)));
}

export function sites(holder, ranking) {
  const body = make("tbody");
  const heads = HEADS.map(([name, right]) => make("th", { class: right ? "number" : "", scope: "col" }, name));
  holder.replaceChildren(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sites" },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body)));
  return (state) => {
    const most = Math.max(...state.sites.map((site) => site.slack ?? 0), 0);
    body.replaceChildren(...state.sites.map((site) => {
      const sent = { messages: site.up.messages + site.down.messages, bytes: site.up.bytes + site.down.bytes };
      const unit = site.unit == null ? "–" : moment((site.unit + 1) * ranking.unit_us);
      const numbers = [number(site.objects), short(sent.messages), short(site.naive.messages), short(sent.bytes),
        short(site.naive.bytes)].map((value) => make("td", { class: "number" }, value));
      const saved = times(site.naive.bytes, sent.bytes);
      return make("tr", {}, make("td", {}, make("b", {}, site.name)), make("td", {}, stateOf(site)),
        make("td", {}, slack(site, most)), make("td", {}, unit), ...numbers,
        make("td", { class: `number ${sent.bytes < site.naive.bytes ? "enough" : ""}` }, saved));
    }));
  };
}
