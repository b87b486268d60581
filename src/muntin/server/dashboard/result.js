// What may be done with an answer beside reading it: see it, keep it as a file, keep the statement.
import { bars, lines } from "./charts.js";
import { local, make, named } from "./dom.js";

const LINES = 5, BARS = 30, SAVED = 30, STORE = "muntin-saved";
const is = (pattern) => (types) => types.map((type, i) => pattern.test(type) ? i : -1).filter((i) => i >= 0);
const times = is(/^timestamp|^date/), numbers = is(/int|float|double|decimal/);

// A line for each label where there is a time, else a bar for each row; nothing where neither fits.
// A key names its row, also where it is a number.
function draw(holder, { columns, types, rows }, keys) {
  const [time] = times(types);
  const at = (name) => columns.indexOf(name);
  const values = numbers(types).filter((i) => !/^(lower|upper|revision)$/.test(columns[i]) && !keys.includes(columns[i]));
  const value = at("value") >= 0 ? at("value") : values[0];
  if (value == null || rows.length < 2) return holder.remove();
  const names = columns.map((_, i) => i).filter((i) => !times(types).includes(i) &&
    (keys.includes(columns[i]) || !numbers(types).includes(i) && !/^duration/.test(types[i])));
  const label = (row) => names.length ? named(names.map((i) => row[i])) : columns[value];
  const bounds = (row) => [row[at("lower")], row[at("upper")]];
  if (time == null) {
    return bars(holder, rows.slice(0, BARS).map((row) => ({ label: label(row), value: row[value], lower: bounds(row)[0], upper: bounds(row)[1] })));
  }
  const series = new Map();
  for (const row of rows) {
    if (row[time] == null) continue;
    if (!series.has(label(row))) series.set(label(row), []);
    series.get(label(row)).push([Date.parse(row[time]) * 1000, row[value], ...bounds(row)]);
  }
  for (const points of series.values()) points.sort((a, b) => a[0] - b[0]);
  lines(holder, [...series].slice(0, LINES).map(([name, points]) => ({ name, points })), { unit: columns[value] });
}

// Null is nothing, an empty text is "".
const cell = (value) => value == null ? "" : value === "" || /[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);

function csv({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function plotted(found, keys) {
  const chart = make("div", { class: "chart" });
  const file = () => {
    const url = URL.createObjectURL(new Blob([csv(found)], { type: "text/csv" }));
    make("a", { href: url, download: "muntin.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  const whole = make("div", { class: "answer" }, chart, make("p", {}, make("button", { type: "button", onclick: file }, "CSV")));
  requestAnimationFrame(() => {
    const [time] = times(found.types);
    if (time == null) chart.classList.remove("chart");
    draw(chart, found, keys);
  });
  return whole;
}

// Statements that this browser keeps.
export function saved(text, run) {
  const read = () => JSON.parse(local.getItem(STORE) ?? "[]");
  const select = make("select", { "aria-label": "saved statements", onchange: () => {
    if (!select.value) return;
    text.value = select.value;
    run();
  } });
  const show = (all) => {
    local.setItem(STORE, JSON.stringify(all.slice(-SAVED)));
    select.replaceChildren(make("option", { value: "" }, "saved statements"), ...all.map((s) => make("option", { value: s }, s.slice(0, 80))));
    select.hidden = !all.length;
  };
  const keep = () => { const s = text.value.trim(); if (s) { show([...read().filter((o) => o !== s), s]); select.value = s; } };
  const forget = () => show(read().filter((o) => o !== text.value.trim()));
  show(read());
  return make("span", { class: "controls" }, make("button", { type: "button", onclick: keep }, "save"),
    make("button", { type: "button", onclick: forget }, "forget"), select);
}
