// How many different items, of all events or of the keys that have most, with their bounds.
import { bars } from "../charts.js";
import { choice, named, quoted } from "../dom.js";
import { following, parts, windowsOf } from "../following.js";

export default function panel(section, summary, live) {
  let window = windowsOf(summary)[0][0];
  const again = () => follow(`SELECT * FROM distinct(${quoted(summary.name)}) ${window} ORDER BY value DESC LIMIT 10`);
  const windows = choice("window", windowsOf(summary), (v) => { window = v; again(); });
  const { holder, note } = parts(section, `Different items in ${summary.name}`, windows);
  const follow = following(live, note, ({ columns, rows }) => {
    const at = (name) => columns.indexOf(name);
    bars(holder, rows.map((row) => ({
      label: named(row.slice(0, summary.by.length)) || summary.name,
      value: row[at("value")], lower: row[at("lower")], upper: row[at("upper")],
    })));
  });
  again();
}
