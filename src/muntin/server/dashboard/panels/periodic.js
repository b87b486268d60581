// Items that come back at a steady interval: their beat, when the next is due, and who is overdue.
import { choice, drawer, named, quoted } from "../dom.js";
import { following, parts } from "../following.js";
import { strips } from "../strip.js";

const ANSWERED = ["item", "interval", "periodicity", "lower", "upper", "next_expected", "last_batch",
  "first_seen", "interval_low", "interval_high"];
const LIVE_US = 3600e6; // a stream whose newest event is older is looked at as of that event

const micros = (text) => Date.parse(text) * 1000;

// ISO 8601 as the server writes it: P1M2DT3.5S.
function span(text) {
  const [, months, days, seconds] = /^P(?:(\d+)M)?(?:(\d+)D)?(?:T([\d.]+)S)?$/.exec(text) ?? [];
  return ((Number(months ?? 0) * 30 + Number(days ?? 0)) * 86400 + Number(seconds ?? 0)) * 1e6;
}

// An item of several columns comes with one column for each behind the usual ones.
function itemsOf({ columns, rows }) {
  const at = (name) => columns.indexOf(name);
  const labels = columns.map((name, i) => [name, i]).filter(([name]) => !ANSWERED.includes(name));
  const label = (row) => named(labels.length ? labels.map(([, i]) => row[i]) : [row[at("item")]]);
  return rows.map((row) => {
    const interval = span(row[at("interval")]), next = micros(row[at("next_expected")]);
    return {
      label: label(row), interval, next, last: next - interval, periodicity: row[at("periodicity")],
      lower: row[at("lower")], upper: row[at("upper")],
    };
  });
}

export default function panel(section, summary, live) {
  let items = [], newest = null, asOf = null;
  section.classList.add("wide");
  const clock = () => Date.now() * 1000;
  const draw = drawer(() => strips(holder, items, asOf === "stream" && newest != null ? newest : clock()));
  const moments = choice("as of", [["clock", "as of now"], ["stream", "as of the newest event"]],
    (value) => { asOf = value; draw(); });
  const { holder, note } = parts(section, `Periodic in ${summary.name}`, moments);
  const follow = following(live, note, (result) => {
    items = itemsOf(result);
    const covered = result.windows[0]?.covered;
    newest = covered ? micros(covered.end) : null;
    if (asOf == null && newest != null) {
      asOf = clock() - newest > LIVE_US ? "stream" : "clock";
      moments.value = asOf;
    }
    draw();
  });
  follow(`SELECT * FROM periodic(${quoted(summary.name)}, 12)`);
  setInterval(() => { if (items.length && asOf === "clock") draw(); }, 1000);
}
