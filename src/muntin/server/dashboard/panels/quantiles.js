// Quantiles now, with their bounds, the worst key first; and over time, with their error shaded.
import { bars, lines } from "../charts.js";
import { choice, drawer, make, named, quoted } from "../dom.js";
import { following, parts, windowsOf } from "../following.js";
import { paced } from "../live.js";

const ASKED = [0.1, 0.5, 0.9, 0.99];
const KEYS = 12; // the worst
const SLICES = 24, AT_ONCE = 12; // of the time shown; FROM items of one statement
const STEPS_S = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
  172800, 604800, 1209600, 2419200, 7257600, 31536000];

const instant = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");
const text = (keys) => JSON.stringify(keys.map((key) => typeof key === "bigint" ? `${key}n` : key));
const literal = (value) => typeof value !== "string" ? String(value) : `'${String(value).replaceAll("'", "''")}'`;

// Slices of whole steps over a run of time, so that those that are over stay the same.
function slices({ start, end }) {
  const [first, last] = [Date.parse(start), Date.parse(end)];
  const step = 1000 * (STEPS_S.find((s) => last - first <= 1000 * s * (SLICES - 1)) ?? STEPS_S.at(-1));
  const starts = [];
  for (let at = Math.floor(first / step) * step; at < last && starts.length < SLICES; at += step) starts.push(at);
  return { step, runs: starts.map((at) => [instant(at), instant(at + step)]) };
}

// One series a quantile; each point stands at the end of the panes that it covers.
function seriesOf(answers) {
  const points = new Map(ASKED.map((q) => [q, new Map()]));
  for (const { columns, rows, windows } of answers) {
    const at = Object.fromEntries(columns.map((name, i) => [name, i]));
    for (const row of rows) {
      const covered = windows[row[at.n]]?.covered;
      if (!covered) continue;
      const time = Date.parse(covered.end) * 1000;
      points.get(row[at.q])?.set(time, [time, row[at.value], row[at.lower], row[at.upper]]);
    }
  }
  return ASKED.map((q) => ({ name: `${100 * q} %`, points: [...points.get(q).values()].sort((a, b) => a[0] - b[0]) }));
}

export default function panel(section, summary, live) {
  const by = summary.by, keys = by.map(quoted).join(", ");
  const from = `FROM quantiles(${quoted(summary.name)}, ${ASKED.join(", ")})`;
  const spans = windowsOf(summary, true);
  let window = spans[0][0], key = "", groups = new Map(), covered = null, series = [];
  const gone = {}; // step -> start of the last slice that only a longer one holds any more, with what came after
  let worst = 0.99;
  const ask = () => follow(by.length
    ? `SELECT ${keys}, q, value, lower, upper FROM quantiles(${quoted(summary.name)}, ${worst}) ${window} ORDER BY value DESC NULLS LAST LIMIT ${KEYS}`
    : `SELECT q, value, lower, upper ${from} ${window}`);
  const which = choice("quantile", [...ASKED].reverse().map((q) => [q, `worst ${100 * q} %`]), (v) => { worst = Number(v); ask(); });
  which.hidden = !by.length;
  const windows = choice("window", spans, (v) => { window = v; ask(); });
  const whose = make("select", { "aria-label": by.join(", "), hidden: !by.length, onchange: () => history(true) });
  const { holder, note } = parts(section, `Quantiles of ${summary.name}`, which, whose, windows);
  const chart = make("div", { class: "chart" });
  section.insertBefore(chart, holder);
  const draw = drawer(() => lines(chart, series, { label: `quantiles of ${summary.name} over time, with their error`, unit: summary.name }));
  new ResizeObserver(draw).observe(chart);

  const history = paced(async () => {
    if (!covered) return;
    const chosen = groups.get(whose.value) ?? [];
    const where = chosen.map((value, i) =>
      `${quoted(by[i])} ${value == null ? "IS NULL" : `= ${literal(value)}`}`).join(" AND ");
    const { step, runs } = slices(covered);
    const asked = (some) => live.query(some.map(([start, end], n) =>
      `SELECT ${n} AS n, q, value, lower, upper ${from} FOR '${start}' TO '${end}'` +
      (where ? ` WHERE ${where}` : "")).join(" UNION ALL ")).catch((problem) => {
      if (problem.code !== "dropped") throw problem;
      if (!(some[0][0] <= gone[step])) gone[step] = some[0][0];
      return some.length > 1 ? asked(some.slice(1)) : { columns: [], rows: [], windows: [] };
    });
    const all = runs.filter(([start]) => !(start <= gone[step])), answers = [];
    for (let i = 0; i < all.length; i += AT_ONCE) answers.push(asked(all.slice(i, i + AT_ONCE)));
    try {
      series = seriesOf(await Promise.all(answers));
      draw();
    } catch (problem) {
      if (problem.status) note.textContent = problem.message; // else the page says that the connection is lost
    }
  });

  const follow = following(live, note, ({ columns, rows, windows: read }) => {
    const at = (name) => columns.indexOf(name);
    bars(holder, rows.map((row) => ({
      label: `${named(row.slice(0, by.length))} ${100 * row[at("q")]} %`.trim(),
      value: row[at("value")], lower: row[at("lower")], upper: row[at("upper")],
    })));
    groups = new Map(by.length ? rows.map((row) => row.slice(0, by.length)).map((of) => [text(of), of]) : []);
    if ([...groups.keys()].join() !== key) {
      key = [...groups.keys()].join();
      const before = whose.value;
      whose.replaceChildren(...[...groups].map(([value, of]) => make("option", { value }, named(of))));
      if (groups.has(before)) whose.value = before;
    }
    covered = read[0]?.covered ?? null;
    history();
  });
  ask();
}
