// The trend of each standing query: one line for each of the first rows of its newest answer. By
// closed window, from the ledger; of one that runs on update, from when the page was opened.
import { lines } from "./charts.js";
import { choice, drawer, make, quoted } from "./dom.js";

const POINTS = 120, LINES = 5, ROWS = "rows"; // counted where an answer has no number in it
const numeric = (type) => /int|float|double|decimal/.test(type);

export async function trend(board, live, query) {
  const holder = make("div", { class: "chart" }), note = make("p", { class: "note" });
  const controls = make("span", { class: "controls" });
  board.append(make("section", {}, make("h2", {}, `Trend: ${query.name}`, controls), holder, note));
  const moves = query.on === "update";
  const points = new Map(); // window start, or second of the update -> rows as [label, {column: value}]
  let column = null;
  const draw = drawer(() => {
    const starts = [...points.keys()].sort((a, b) => a - b);
    for (const old of starts.splice(0, Math.max(0, starts.length - POINTS))) points.delete(old);
    const names = (points.get(starts.at(-1)) ?? []).slice(0, LINES).map(([label]) => label);
    const series = names.map((name) => ({
      name, points: starts.map((start) => {
        const row = points.get(start).find(([label]) => label === name)?.[1];
        return [start, row?.[column], row?.lower, row?.upper];
      }),
    }));
    lines(holder, series, { label: `${column} of ${query.name}, by ${moves ? "update" : "window"}` });
  });
  new ResizeObserver(draw).observe(holder);
  const count = (starts, now) => {
    const many = new Map(now == null ? [] : [[now, 0]]);
    for (const start of starts) many.set(start, (many.get(start) ?? 0) + 1);
    for (const [start, rows] of many) points.set(start, [[query.name, { [ROWS]: rows }]]);
    column = ROWS;
    draw();
  };
  const take = ({ columns, types, rows }, startOf, start = null, errorAt = -1) => {
    // what a trend adds to a query's own columns is not there in what is pushed
    const kinds = columns.map((name, i) => [name, i])
      .filter(([name, i]) => !/^window_|^revision$/.test(name) && i !== errorAt);
    const values = kinds.filter(([, i]) => numeric(types[i]));
    const labels = kinds.filter(([, i]) => !numeric(types[i]));
    if (!values.length) return count(rows.map(startOf), start);
    if (column == null && values.length) {
      column = values.at(-1)[0];
      const select = choice("column", values.map(([name]) => [name, name]), (name) => { column = name; draw(); });
      select.value = column;
      if (values.length > 1) controls.replaceChildren(select);
    }
    const fresh = new Map();
    for (const row of rows) {
      const start = startOf(row);
      if (!fresh.has(start)) fresh.set(start, []);
      const label = labels.map(([, i]) => row[i] ?? "null").join(", ") || query.name;
      fresh.get(start).push([label, Object.fromEntries(values.map(([name, i]) => [name, row[i]]))]);
    }
    for (const [start, found] of fresh) points.set(start, found);
    draw();
  };
  live.subscribe({ query: query.name, on: moves ? "update" : "window" }, (message) => {
    const start = moves ? Math.floor(Date.now() / 1000) * 1e6
      : message.window && Date.parse(message.window.start) * 1000;
    if (message.result) take(message.result, () => start, start);
    note.textContent = message.error?.message ?? query.select;
  });
  if (moves) {
    note.textContent = query.select;
    return;
  }
  const from = `(SELECT * FROM trend(${quoted(query.name)})) AS t`;
  try {
    const found = await live.query(`SELECT * FROM ${from} ORDER BY window_start DESC LIMIT ${POINTS * 10}`);
    const at = found.columns.indexOf("window_start"), failed = found.columns.indexOf("error");
    const rows = found.rows.filter((row) => row[at] && row[failed] == null);
    take({ ...found, rows }, (row) => Date.parse(row[at]) * 1000, null, failed);
  } catch (problem) {
    note.textContent = problem.message;
  }
  note.textContent ||= query.select;
}
