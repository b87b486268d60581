// The top k as bars that move when ranks change, and the course of who entered and left.
import { amount, make, moment, number } from "/static/dom.js";

const NEW_MS = 15000; // an object is marked as new for so long
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function newRow() {
  const parts = {};
  for (const name of ["rank", "name", "bar", "value", "mark"]) parts[name] = make(name === "bar" ? "div" : "span", { class: name });
  parts.row = make("li", {}, parts.rank, parts.name, make("span", { class: "track" }, parts.bar), parts.value, parts.mark);
  return parts;
}

// A row that is now elsewhere begins where it was and glides to its place.
function glide(rows, before) {
  if (calm.matches) return;
  for (const { row } of rows.values()) {
    const from = before.get(row);
    const by = from == null ? 40 : from - row.offsetTop;
    if (!by) continue;
    const start = { transform: `translateY(${by}px)`, opacity: from == null ? 0 : 1 };
    row.animate([start, { transform: "none", opacity: 1 }], { duration: 600, easing: "ease-out" });
  }
}

function entrants(history, now) {
  const fresh = history.filter((one) => now - Date.parse(one.at) < NEW_MS);
  return new Set(fresh.flatMap((one) => one.entered));
}

export function race(holder) {
  const list = holder.querySelector("ol"), note = holder.querySelector("p");
  const rows = new Map();
  return (state, now) => {
    const { answer, history } = state;
    holder.classList.toggle("doubt", !answer.valid);
    const items = answer.items.map((one) => one.item);
    const before = new Map([...rows.values()].map(({ row }) => [row, row.offsetTop]));
    for (const [item, { row }] of rows) if (!items.includes(item)) { row.remove(); rows.delete(item); }
    const shown = [...rows.keys()].join("\0"); // Map order is the order shown last
    const fresh = entrants(history, now);
    const most = Math.max(...answer.items.map((one) => Math.abs(amount(one.value ?? 0))), 1e-12);
    answer.items.forEach(({ item, value }, i) => {
      const parts = rows.get(item) ?? newRow();
      rows.delete(item);
      rows.set(item, parts);
      parts.rank.textContent = i + 1;
      parts.name.textContent = parts.name.title = item;
      parts.bar.style.width = `${(100 * Math.abs(amount(value ?? 0))) / most}%`;
      parts.value.textContent = number(value);
      parts.mark.textContent = fresh.has(item) ? "new" : "";
      parts.row.classList.toggle("entered", fresh.has(item));
    });
    if ([...rows.keys()].join("\0") !== shown || list.children.length !== rows.size) {
      list.replaceChildren(...[...rows.values()].map(({ row }) => row));
      glide(rows, before);
    }
    note.textContent = !items.length ? "nothing yet"
      : "Who belongs to the top is proved; values are those that sites sent last, since a site whose constraints hold says nothing.";
  };
}

export function changes(holder) {
  let shown = null;
  return (state) => {
    const { history } = state;
    const newest = history.at(-1)?.at ?? "";
    if (newest === shown) return;
    shown = newest;
    if (!history.length) return void holder.replaceChildren(make("p", { class: "note" }, "no change since the first answer"));
    const rows = history.slice(-40).reverse().map((one) => make("tr", {},
      make("td", {}, moment(one.at)),
      make("td", { class: "in" }, one.entered.length ? `+ ${one.entered.join(", ")}` : ""),
      make("td", { class: "out" }, one.left.join(", "))));
    const names = ["at (UTC)", "entered", "left"].map((name) => make("th", {}, name));
    holder.replaceChildren(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changes of the top" },
      make("table", {}, make("thead", {}, make("tr", {}, ...names)), make("tbody", {}, ...rows))));
  };
}
