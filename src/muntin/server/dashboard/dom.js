// Small helpers: elements, numbers and times as people read them. No text is ever parsed as HTML.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// What the browser keeps; where it may keep nothing, the page does while it is open.
function storage(name) {
  try {
    return window[name];
  } catch {
    const held = new Map();
    return { getItem: (key) => held.get(key) ?? null, setItem: (key, value) => held.set(key, value) };
  }
}

export const local = storage("localStorage"), session = storage("sessionStorage");

export function number(value, digits = 0) {
  if (value == null) return "–";
  if (typeof value === "bigint") return value.toLocaleString("en");
  if (typeof value !== "number") return String(value);
  if (value && Math.abs(value) < 1e-6 || Math.abs(value) >= 1e21) return value.toExponential(1);
  if (value && Math.abs(value) < 1) return value.toLocaleString("en", { maximumSignificantDigits: digits || 2 });
  const rest = Number.isInteger(value) ? 0 : Math.abs(value) >= 100 ? 0 : digits || 2;
  return value.toLocaleString("en", { maximumFractionDigits: rest });
}

// A value of a table: 15 digits of a float, as `cell` of select/result_text.py.
function exactly(value) {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return number(value);
  const near = Number(value.toPrecision(15)), size = Math.abs(near);
  return size < 1e-4 || size >= 1e15 ? near.toExponential() : near.toLocaleString("en", { maximumSignificantDigits: 15 });
}

// For a chart, which rounds.
export const amount = (value) => typeof value === "bigint" ? Number(value) : value;

export function short(value) {
  if (value == null) return "–";
  if (Math.abs(value) < 10000) return number(value, Math.abs(value) < 1 ? 2 : 1);
  if (Math.abs(value) >= 1e15) return Number(value).toExponential(0);
  return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
}

export function bytes(value) {
  const step = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${number(value / 1024 ** step, step ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
}

const UNITS = [["week", 604800], ["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];

// Two units at most: 93,600,000,000 -> "1 day 2 h".
export function duration(us) {
  if (us == null) return "–";
  if (us < 0) return `-${duration(-us)}`;
  if (us < 1e6) return `${Math.round(us / 1000)} ms`;
  let left = Math.round(us / 1e6);
  const parts = [];
  for (const [name, seconds] of UNITS) {
    const count = Math.floor(left / seconds);
    if (count && parts.length < 2) {
      const plural = count > 1 && /week|day/.test(name) ? "s" : "";
      parts.push(`${count} ${name}${plural}`);
      left -= count * seconds;
    } else if (parts.length) break;
  }
  return parts.join(" ") || "0 s";
}

// Event time, UTC, from microseconds or ISO 8601.
export function moment(value) {
  if (value == null) return "–";
  const text = typeof value === "number" ? new Date(value / 1000).toISOString() : value;
  return text.slice(0, 19).replace("T", " ").replace(/:00$/, "");
}

export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

// The parts of a joined item, which its bytes keep apart by U+001F.
const apart = (text) => String(text).replaceAll("\x1f", " · ");

// The keys of a row; a key may be null, or nothing that is seen, or run from right to left: what stands beside it
// stays in its order.
export const named = (keys) => keys.map((key) => key == null ? "(none)" : !/[^\s\p{C}]|\x1f/u.test(key) ? JSON.stringify(key)
  : /[^\0-\x7f]/.test(key) ? `\u2068${apart(key)}\u2069` : apart(key)).join(", ");

// Columns that name a row, also where they are numbers.
export const namingOf = (summaries) => ["item", "q", ...summaries.flatMap((s) => [...s.keys.flat(), ...s.by])];

export function table(columns, rows, types = []) {
  const right = columns.map((_, i) => /int|float|double|decimal/.test(types[i] ?? ""));
  const cell = (tag, value, i) => make(tag, { class: right[i] ? "number" : "" }, value);
  const head = make("tr", {}, ...columns.map((name, i) => cell("th", name, i)));
  const body = rows.map((row) => make("tr", {}, ...row.map((v, i) =>
    cell("td", v == null ? "NULL" : right[i] ? exactly(v) : apart(v), i))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

export const scroll = (inside) => make("div", { class: "scroll", tabindex: "0" }, inside);

// What is drawn anew stays where it was scrolled to, and keeps the keyboard's place.
export function refill(holder, inside) {
  const kept = holder.querySelector(":scope > .scroll");
  if (kept) kept.replaceChildren(inside);
  else holder.replaceChildren(scroll(inside));
}

// A table with a button in each row; returns it, and what shows [name, its other cells' texts] and gives
// the rows by name. These stay, so that the keyboard's place is not lost.
export function listing(head, numbers, onclick) {
  const body = make("tbody"), rows = new Map();
  const line = (tag, inside) => make("tr", {}, ...head.map((name, i) =>
    make(tag, { class: i >= numbers ? "number" : "" }, inside(name, i))));
  const whole = scroll(make("table", {}, make("thead", {}, line("th", (name) => name)), body));
  const show = (all) => {
    const there = new Set(all.map(([name]) => name));
    for (const [name, row] of rows) if (!there.has(name)) { row.remove(); rows.delete(name); }
    for (const [name, ...texts] of all) {
      if (!rows.has(name)) {
        const button = make("button", { type: "button", onclick: () => onclick(name) }, name);
        rows.set(name, line("td", (_, i) => i ? null : button));
        body.append(rows.get(name));
      }
      texts.forEach((text, i) => { rows.get(name).cells[i + 1].textContent = text; });
    }
    return rows;
  };
  return [whole, show];
}

export function choice(label, options, onchange) {
  const select = make("select", { "aria-label": label, onchange: () => onchange(select.value) });
  for (const [value, text] of options) select.append(make("option", { value }, text));
  return select;
}

// Draw at most once a frame, and not while the page is hidden.
export function drawer(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  };
}
