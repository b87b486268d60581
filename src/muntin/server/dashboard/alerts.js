// Alerts of the pipeline that is shown: which fire now, and what has changed last.
import { make, moment, named, scroll } from "./dom.js";

const SHOWN = 6;

export function alerts(section) {
  const now = make("p"), changes = make("tbody");
  section.querySelector("div").replaceChildren(now, scroll(make("table", {}, changes)));
  return (state, pipeline) => {
    const said = pipeline.alerts;
    section.hidden = !said?.alerts.length && !said?.changes.length;
    if (section.hidden) return;
    now.replaceChildren(...said.alerts.map(({ name, firing, pending, error }) => make("span",
      { class: `alert ${firing ? "bad" : pending || error ? "warn" : "good"}` },
      `${name}: ${error || (firing ? `${firing} firing` : pending ? `${pending} pending` : "quiet")}`)));
    const whose = (by) => Object.entries(by).map(([column, value]) => `${column} ${named([value])}`).join(", ");
    changes.replaceChildren(...said.changes.slice(0, SHOWN).map((change) => make("tr", {},
      make("td", { class: change.state === "firing" ? "bad" : "good" }, change.state),
      make("td", {}, change.alert), make("td", {}, whose(change.by)), make("td", {}, change.when),
      make("td", {}, `${moment(change.at)} UTC`))));
  };
}
