// Quantiles with their bounds.
import { bars } from "../charts.js";
import { choice, quoted } from "../dom.js";
import { following, parts, WINDOWS } from "../following.js";

export default function panel(section, summary, live) {
  let window = "";
  const by = summary.by.map(quoted).join(", ");
  const again = () => follow(`SELECT ${by ? `${by}, ` : ""}q, value, lower, upper ` +
    `FROM quantiles(${quoted(summary.name)}, 0.5, 0.9, 0.99) ${window} ${by ? `ORDER BY ${by}, q LIMIT 15` : ""}`);
  const windows = choice("window", WINDOWS, (v) => { window = v; again(); });
  const { holder, note } = parts(section, `Quantiles of ${summary.name}`, windows);
  const follow = following(live, note, ({ columns, rows }) => {
    const at = (name) => columns.indexOf(name);
    bars(holder, rows.map((row) => ({
      label: [...row.slice(0, summary.by.length), `${100 * row[at("q")]} %`].join(" "),
      value: row[at("value")], lower: row[at("lower")], upper: row[at("upper")],
    })));
  });
  again();
}
