// Top keys of a chosen key and indicator; of a sketched matrix with their lower bounds.
import { bars } from "../charts.js";
import { choice, named, quoted } from "../dom.js";
import { following, parts, windowsOf } from "../following.js";

export default function panel(section, summary, live) {
  let key = 0, indicator = "count", window = windowsOf(summary)[0][0];
  const again = () => {
    const columns = summary.keys[key].map(quoted).join(", ");
    const value = indicator === "count" ? "count" : quoted(indicator);
    const lower = summary.sketched ? quoted(`${indicator}_lower`) : value;
    follow(`SELECT ${columns}, ${lower} AS lower, ${value} AS value FROM ${quoted(summary.name)}(${columns}) ${window} ` +
      "ORDER BY value DESC NULLS LAST LIMIT 10");
  };
  const keys = choice("key", summary.keys.map((k, i) => [i, k.join(" × ")]), (v) => { key = Number(v); again(); });
  const names = ["count", ...summary.indicators];
  const indicators = choice("indicator", names.map((n) => [n, n]), (v) => { indicator = v; again(); });
  const windows = choice("window", windowsOf(summary), (v) => { window = v; again(); });
  const { holder, note } = parts(section, `Top of ${summary.name}`, keys, " ", indicators, " ", windows);
  const follow = following(live, note, (result) => bars(holder, result.rows.map((row) => ({
    label: named(row.slice(0, -2)), value: row.at(-1), lower: row.at(-2), upper: row.at(-1),
  }))));
  again();
}
