// Small SVG charts: areas and lines over time with bands, columns, and bars as a table.
import { amount, make, moment, number, short } from "./dom.js";

const KEYS = 44; // left free for the keys of the colours, two lines of them
const NS = "http://www.w3.org/2000/svg";
export const COLOURS = ["var(--one)", "var(--two)", "var(--three)", "var(--four)", "var(--five)"];
const LEFT = 52, RIGHT = 8, TOP = 22, BOTTOM = 22; // above: the unit

function svg(tag, attributes, text) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "fill" || name === "stroke") element.style[name] = value;
    else element.setAttribute(name, value);
  }
  if (text != null) element.textContent = text;
  return element;
}

// Least and most of any number of values, which are too many for the arguments of a call.
const extent = (values) => values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);

// A round number above a value, and not far above it.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 2.5, 3, 4, 5, 6, 8, 10].map((f) => f * power).find((v) => v >= value);
}

// A holder gives the chart its place; where it is taller than asked, the chart is too.
function frame(holder, least, label, keys = 0) {
  const height = Math.max(least, holder.classList.contains("chart") ? holder.clientHeight - keys : 0);
  const width = Math.max(220, holder.clientWidth || 600);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  return { root, width, height, plot: { w: width - LEFT - RIGHT, h: height - TOP - BOTTOM } };
}

function scaleY(root, width, plot, low, high, unit = "") {
  const y = (v) => TOP + plot.h * (1 - (v - low) / (high - low || 1));
  const below = -low > 0.15 * high; // else its label would lie over that of 0
  for (const value of low < 0 ? [0, below ? low : high / 2, high] : [low, (low + high) / 2, high]) {
    root.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    root.append(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  if (unit) root.append(svg("text", { class: "unit", x: LEFT, y: TOP - 9 }, unit));
  return y;
}

function runs(points) {
  const found = [[]];
  for (const point of points) {
    if (point[1] != null) found.at(-1).push(point);
    else if (found.at(-1).length) found.push([]);
  }
  return found.filter((run) => run.length);
}

// A chart without anything in it stays small.
function empty(holder, nothing, why = "nothing yet") {
  holder.classList.toggle("empty", nothing);
  if (nothing) holder.replaceChildren(make("p", { class: "note" }, why));
  return nothing;
}

// A time of which another stands beside it: where both would be too long, without year and seconds.
const brief = (plot, text) => plot.w < 340 ? text.slice(5, 16) : text;

// Event times at the foot, in UTC: both ends, and between them what differs from the first.
function scaleX(root, width, height, plot, first, last) {
  const ticks = plot.w > 740 ? 4 : plot.w > 400 ? 2 : 1; // a date and time take some 130
  for (let i = 0; i <= ticks; i += 1) {
    const exact = moment(first + ((last - first) * i) / ticks), place = LEFT + (plot.w * i) / ticks;
    const same = i && exact.slice(0, 10) === moment(first).slice(0, 10);
    const anchor = i === 0 ? "start" : i === ticks ? "end" : "middle";
    root.append(svg("text", { x: place, y: height - 4, "text-anchor": anchor },
      (same ? exact.slice(11) : i && i < ticks ? exact.slice(0, 16) : brief(plot, exact)) + (i === ticks ? " UTC" : "")));
    if (last === first) break;
  }
}

// Dragging over a chart tells which run of time is meant; a double click, that all of it is.
function zoomable(root, plot, first, last, zoom) {
  const time = (event) => first + (last - first) *
    Math.min(1, Math.max(0, (event.clientX - root.getBoundingClientRect().left - LEFT) / plot.w));
  root.classList.add("zoomable");
  root.onpointerdown = (down) => {
    const mark = svg("rect", { class: "chosen", y: TOP, height: plot.h, width: 0 }), from = time(down);
    root.append(mark);
    root.setPointerCapture(down.pointerId);
    root.onpointermove = (move) => {
      const [a, b] = [from, time(move)].sort((one, two) => one - two).map((t) => LEFT + (plot.w * (t - first)) / (last - first));
      mark.setAttribute("x", a);
      mark.setAttribute("width", b - a);
    };
    root.onpointerup = root.onpointercancel = (up) => {
      root.onpointermove = root.onpointerup = root.onpointercancel = null;
      mark.remove();
      const [a, b] = [from, time(up)].sort((one, two) => one - two);
      if (b - a > (last - first) / 100) zoom(a, b);
    };
  };
  root.ondblclick = () => zoom(null, null);
}

// given: [{name, points: [[time, value, lower?, upper?], ...]}]; times are microseconds of event time.
export function lines(holder, given, { height: least = 170, area = false, label = "", unit = "", zoom = null, low: from = null, high: until = null, why } = {}) {
  const series = given.map(({ name, points }) => ({ name, points: points.map((p) => p.map(amount)) }));
  const all = series.flatMap((s) => s.points).filter((p) => p[1] != null);
  if (holder.querySelector(".chosen") || empty(holder, !all.length, why)) return; // somebody drags over it
  const { root, width, height, plot } = frame(holder, least, label || series.map((s) => s.name).join(", "), series.length > 1 ? KEYS : 0);
  const [begin, end] = extent(all.map((p) => p[0])), first = from ?? begin, last = until ?? end;
  const [low, most] = extent(all.flatMap((p) => p.slice(1).filter((v) => v != null))), high = roundUp(most);
  const y = scaleY(root, width, plot, low < 0 ? -roundUp(-low) : 0, high, unit);
  const x = (t) => LEFT + plot.w * (last > first ? (t - first) / (last - first) : 1);
  series.forEach((one, i) => {
    const colour = COLOURS[i % COLOURS.length];
    const points = one.points.filter((p) => p[1] != null);
    if (!points.length) return;
    const line = points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`);
    const banded = points.filter((p) => p[2] != null && p[3] != null);
    if (banded.length > 1) {
      const up = banded.map((p) => `${x(p[0]).toFixed(1)},${y(p[3]).toFixed(1)}`);
      const down = banded.map((p) => `${x(p[0]).toFixed(1)},${y(p[2]).toFixed(1)}`).reverse();
      root.append(svg("polygon", { points: [...up, ...down].join(" "), fill: colour, opacity: 0.22 }));
    }
    if (area) {
      const ends = [`${x(points[0][0])},${y(0)}`, ...line, `${x(points.at(-1)[0])},${y(0)}`];
      root.append(svg("polygon", { points: ends.join(" "), fill: colour, opacity: 0.2 }));
    }
    for (const run of runs(one.points)) { // a line joins what follows upon each other, and nothing else
      const places = run.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`);
      root.append(places.length > 1
        ? svg("polyline", { points: places.join(" "), fill: "none", stroke: colour, "stroke-width": 2.5, "stroke-linejoin": "round" })
        : svg("circle", { cx: x(run[0][0]), cy: y(run[0][1]), r: 2.2, fill: colour }));
    }
    const end = points.at(-1);
    root.append(svg("circle", { cx: x(end[0]), cy: y(end[1]), r: 4, fill: colour }));
  });
  scaleX(root, width, height, plot, first, last);
  if (zoom && last > first) zoomable(root, plot, first, last, zoom);
  holder.replaceChildren(root, ...(series.length > 1 ? [key(series.map((s) => s.name))] : []));
}

// items: [{value, colour, title}], oldest first.
export function columns(holder, items, { height: least = 150, label = "", unit = "" } = {}) {
  if (empty(holder, !items.length)) return;
  const { root, width, height, plot } = frame(holder, least, label);
  const y = scaleY(root, width, plot, 0, roundUp(Math.max(...items.map((i) => i.value))), unit);
  const step = Math.min(plot.w / items.length, 60);
  items.forEach((item, i) => {
    const bar = svg("rect", {
      x: LEFT + i * step + 0.5, width: Math.max(1, step - 1.5), y: y(item.value),
      height: Math.max(1, y(0) - y(item.value)), fill: item.colour, rx: 1,
    });
    bar.append(svg("title", {}, item.title));
    root.append(bar);
  });
  const [begun, end] = [items[0].name, items.at(-1).name];
  const later = end.slice(0, 10) === begun.slice(0, 10) ? end.slice(11) : brief(plot, end);
  root.append(svg("text", { x: LEFT, y: height - 4 }, items.length > 1 ? `${brief(plot, begun)} to ${later} UTC` : `${begun} UTC`));
  holder.replaceChildren(root);
}

// items: [{label, value, lower?, upper?, unsure?}]; the bounds are drawn over the end of the bar.
export function bars(holder, items, { format = (v) => number(v, 2) } = {}) {
  if (empty(holder, !items.length)) return;
  const all = items.flatMap((i) => [i.value, i.lower, i.upper]).map((value) => amount(value ?? 0));
  const least = Math.min(0, ...all), whole = Math.max(1e-12, ...all) - least;
  const share = (value) => `${(100 * value) / whole}%`;
  const rows = items.map((item) => {
    const bar = make("div", { class: "bar" });
    const value = amount(item.value ?? 0); // one below 0 ends where the others begin
    bar.style.marginLeft = share(Math.min(value, 0) - least);
    bar.style.width = share(Math.abs(value));
    const bounded = item.lower != null && item.lower !== item.upper;
    const range = bounded ? make("i", { class: "range" }) : null;
    if (range) {
      range.style.left = share(amount(item.lower) - least);
      range.style.width = share(amount(item.upper) - amount(item.lower));
    }
    const said = bounded ? ` (${format(item.lower)} – ${format(item.upper)})` : "";
    const title = item.unsure ? `${item.label}: not surely among these` : item.label;
    return make("tr", { class: item.unsure ? "unsure" : "" }, make("td", { title }, item.label),
      make("td", {}, make("div", { class: "bounded" }, bar, range)),
      make("td", { class: "number" }, format(item.value) + said));
  });
  holder.replaceChildren(make("table", { class: "bars" }, make("tbody", {}, ...rows)));
}

export function key(names, colours = COLOURS) {
  return make("p", { class: "keys" }, ...names.map((name, i) => {
    const patch = make("i");
    patch.style.background = colours[i % colours.length];
    return make("span", { title: name }, patch, name);
  }));
}
