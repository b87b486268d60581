// The trend of each standing query: a line for each of those that were most in the windows shown, also
// over windows in which they were not among the answers. By closed window, from the ledger; of a query
// that runs on update, from when the page was opened.
import { lines } from "./charts.js";
import { amount, choice, drawer, make, named, quoted } from "./dom.js";
import { caughtUp } from "./live.js";

const POINTS = 300, LINES = 5, ROWS = "rows"; // counted where an answer has no number in it
const KEPT = 30_000; // rows, of how many windows they may be
const numeric = (type) => /int|float|double|decimal/.test(type);

// The column that a statement is ordered by, where that is a column and not an expression.
function orderedBy(select, columns) {
  const parts = /'(?:[^']|'')*'|[()]|\bORDER\s+BY\s+(?:\w+\.)?("(?:[^"]|"")+"|\w+)(?=\s*(?:[,)]|$|ASC\b|DESC\b|NULLS\b|LIMIT\b|OFFSET\b))|"(?:[^"]|"")*"/gi;
  let depth = 0, found = null;
  for (const [part, name] of select.matchAll(parts)) {
    if (part === "(") depth++;
    else if (part === ")") depth--;
    else if (name && !depth) found = name[0] === '"' ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase();
  }
  return /^\d+$/.test(found) ? columns[found - 1] : columns.find((name) => name === found || name.toLowerCase() === found);
}

const COUNTS = /^(count|events|rows|n)$|^count_/i;

// Which columns of an answer name a line, and which are its values: first the one that it is ordered by.
function kinds(columns, types, keys, ordered) {
  const shown = columns.map((name, i) => [name, i]).filter(([name, i]) => !/^window_|^(revision|error|lower|upper)$/.test(name) && types[i] !== "bool");
  const names = shown.filter(([name, i]) => keys.includes(name) || !numeric(types[i]) && !/^(timestamp|duration)/.test(types[i]));
  const values = shown.filter(([name, i]) => numeric(types[i]) && !keys.includes(name));
  const rank = (name) => name === ordered ? 0 : name === "value" ? 1 : COUNTS.test(name) ? 3 : 2;
  values.sort(([a], [b]) => rank(a) - rank(b));
  return { names, values };
}

export function trend(board, live, query, range, keys) {
  const holder = make("div", { class: "chart" }), note = make("p", { class: "note" });
  const controls = make("span", { class: "controls" });
  board.append(make("section", { "data-pipeline": query.pipeline }, make("h2", {}, `Trend: ${query.name}`, controls), holder, note));
  const moves = query.on === "update";
  const points = new Map(); // window start, or second of the update -> rows as [label, {column: value}]
  let column = null, ordered;
  const draw = drawer(() => {
    const from = moves ? null : range.ends()[0]; // of a page that stays open, the last hour moves on
    const starts = [...points.keys()].filter((start) => !from || start >= Date.parse(from) * 1000).sort((a, b) => a - b);
    const series = new Map(); // label -> points, in the order of time
    for (const start of starts) {
      for (const [label, row] of points.get(start)) {
        if (row[column] == null) continue;
        if (!series.has(label)) series.set(label, []);
        series.get(label).push([start, row[column], row.lower, row.upper]);
      }
    }
    const most = [...series].map(([name, found]) => ({ name, points: found, sum: found.reduce((a, p) => a + Math.abs(p[1]), 0) }));
    most.sort((a, b) => b.sum - a.sum);
    lines(holder, most.slice(0, LINES), { label: `${column} of ${query.name}, by ${moves ? "update" : "window"}`, unit: column ?? "", zoom: range.zoom,
      why: points.size ? `${column} was null in each of ${points.size} windows` : undefined });
  });
  new ResizeObserver(draw).observe(holder);
  const forget = () => { // here and not in `draw`: a page that is hidden is told, and draws nothing
    let windows = 0, rows = 0;
    for (const start of [...points.keys()].sort((a, b) => b - a)) {
      rows += points.get(start).length;
      if (++windows > POINTS || (windows > 1 && rows > KEPT)) points.delete(start);
    }
  };
  const count = (starts, now) => {
    if (now == null && !starts.length) return; // nothing has closed: what its answers hold is not known
    const many = new Map(now == null ? [] : [[now, 0]]);
    for (const start of starts) many.set(start, (many.get(start) ?? 0) + 1);
    for (const [start, rows] of many) points.set(start, [[query.name, { [ROWS]: rows }]]);
    forget();
    column = ROWS;
    draw();
  };
  const take = ({ columns, types, rows }, startOf, start = null) => {
    const { names: labels, values } = kinds(columns, types, keys, ordered ??= orderedBy(query.select, columns.filter((name) => !/^(window_.*|revision|error)$/.test(name))));
    if (!values.length) return count(rows.map(startOf), start);
    if (column == null && values.length) {
      column = values[0][0];
      const select = choice("column", values.map(([name]) => [name, name]), (name) => { column = name; draw(); });
      select.value = column;
      if (values.length > 1) controls.replaceChildren(select);
    }
    const fresh = new Map();
    for (const row of rows) {
      const start = startOf(row);
      if (!fresh.has(start)) fresh.set(start, []);
      const label = named(labels.map(([, i]) => row[i])) || query.name;
      fresh.get(start).push([label, Object.fromEntries(values.map(([name, i]) => [name, amount(row[i])]))]);
    }
    points.delete(start); // a revision may have fewer rows, or none
    for (const [start, found] of fresh) points.set(start, found);
    forget();
    draw();
  };
  const hear = (message) => {
    const start = moves ? Math.floor(Date.now() / 1000) * 1e6
      : message.window && Date.parse(message.window.start) * 1000;
    if (message.result && range.until == null) take(message.result, () => start, start);
    else if (message.error && message.window && points.delete(start)) draw(); // what it said before is of fewer events
    note.textContent = message.error?.message ?? query.select;
  };
  note.textContent = query.select;
  if (moves) return void live.subscribe({ query: query.name, on: "update" }, hear, note.parentElement);
  const asking = caughtUp(() => {
    const [start, end] = range.ends();
    const run = start || end ? `FOR '${start ?? "1970-01-01"}' TO '${end ?? "2200-01-01"}'` : "";
    const from = `(SELECT * FROM trend(${quoted(query.name)}) ${run}) AS t`;
    return live.query(`SELECT * FROM ${from} WHERE error IS NULL ORDER BY window_start DESC LIMIT ${POINTS * 10}`);
  }, (found) => {
    const at = found.columns.indexOf("window_start");
    points.clear();
    note.textContent = query.select;
    take({ ...found, rows: found.rows.filter((row) => row[at]) }, (row) => Date.parse(row[at]) * 1000);
    draw();
  }, hear);
  const fill = () => asking.fill().catch((problem) => { note.textContent = problem.message; });
  range.onchange(() => live.seen.has(note.parentElement) && fill());
  const told = (message) => message.type === "gap" ? fill() : asking.told(message);
  live.subscribe({ query: query.name, on: "window" }, told, note.parentElement, fill);
}
