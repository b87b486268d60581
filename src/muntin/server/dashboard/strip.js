// A strip for each periodic item: its beat counted back from the last batch, when the next is due,
// and where `now` stands. All strips have the item's own interval as their unit, so that the last
// batches stand below each other, however long the intervals are.
import { duration, make, moment, refill } from "./dom.js";

const BACK = 6, AHEAD = 2.5; // intervals before and after the last batch
const percent = (units) => `${((100 * (units + BACK + 0.3)) / (BACK + AHEAD + 0.3)).toFixed(2)}%`;

function mark(kind, from, to, title) {
  const element = make("i", { class: kind, title });
  element.style.left = percent(from);
  if (to != null) element.style.right = `calc(100% - ${percent(to)})`;
  return element;
}

// item: {label, interval, periodicity, lower, upper, last, next}; times in microseconds.
function strip(item, now) {
  const unit = Math.max(item.interval, 1);
  const inside = (time) => Math.min(Math.max((time - item.last) / unit, -BACK), AHEAD);
  const next = inside(item.next), at = inside(now), late = now > item.next;
  const line = make("div", { class: "strip" });
  for (let back = Math.min(item.periodicity, BACK); back >= 0; back -= 1) {
    line.append(mark("beat", -back, null, moment(item.last - back * unit)));
  }
  if (late) line.append(mark("late", next, at, `overdue since ${moment(item.next)}`));
  else if (at > 0) line.append(mark("waits", 0, at, `${duration(now - item.last)} since the last batch`));
  line.append(mark("next", next, null, `expected ${moment(item.next)}`));
  line.append(mark("now", at, null, `now: ${moment(now)}`));
  return line;
}

export function strips(holder, items, now) {
  if (!items.length) return void holder.replaceChildren(make("p", { class: "note" }, "nothing yet"));
  const rows = items.map((item) => {
    const late = now > item.next;
    const times = `×${item.periodicity}${item.lower < item.periodicity ? ` (at least ${item.lower})` : ""}`;
    const due = late ? `overdue ${duration(now - item.next)}` : `in ${duration(item.next - now)}`;
    return make("tr", { class: late ? "overdue" : "" },
      make("td", { title: item.label }, item.label),
      make("td", { class: "number" }, duration(item.interval)),
      make("td", {}, strip(item, now)),
      make("td", { class: "number", title: `${item.lower} to ${item.upper} intervals` }, times),
      make("td", { class: "due" }, due));
  });
  const names = ["item", "every", "its beat, counted back from the last batch", "times", "next"].map((name) => make("th", {}, name));
  refill(holder, make("table", { class: "strips" }, make("thead", {}, make("tr", {}, ...names)), make("tbody", {}, ...rows)));
}
