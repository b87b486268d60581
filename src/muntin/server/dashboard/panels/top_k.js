// Heavy hitters with their bounds; those that are not surely among the heaviest are said to be so.
import { bars } from "../charts.js";
import { choice, named, quoted } from "../dom.js";
import { following, parts, windowsOf } from "../following.js";

export default function panel(section, summary, live) {
  let window = windowsOf(summary)[0][0];
  const again = () => follow(`SELECT * FROM top_k(${quoted(summary.name)}, 10) ${window} ORDER BY value DESC LIMIT ${summary.by.length ? 20 : 10}`);
  const windows = choice("window", windowsOf(summary), (v) => { window = v; again(); });
  const { holder, note } = parts(section, `Most frequent in ${summary.name}`, windows);
  const follow = following(live, note, ({ columns, rows }) => {
    const at = (name) => columns.indexOf(name);
    bars(holder, rows.map((row) => ({
      label: named([...row.slice(0, summary.by.length), row[at("item")]]),
      value: row[at("value")], lower: row[at("lower")], upper: row[at("upper")],
      unsure: row[at("guaranteed")] === false,
    })));
  });
  again();
}
