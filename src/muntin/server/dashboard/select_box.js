// The SELECT box: completion of names, errors at their place, answers with what they cover, as a chart
// and as a file; statements that were kept in this browser.
import { make, moment, namingOf, number, quoted, scroll, session, table } from "./dom.js";
import { plotted, saved } from "./result.js";

const ROWS = 500;
const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "DESC", "LIMIT", "FOR LAST '1 hour'",
  "FOR WINDOW LAST", "FOR ALL", "EVERY '1 minute'", "count", "sum(", "avg(", "max(", "quantiles(", "top_k(",
  "frequency(", "distinct(", "periodic(", "trend(", "windows("];

function completions(names) {
  const found = new Map(WORDS.map((word) => [word, "word"]));
  for (const summary of names.summaries) {
    const name = named(summary.name);
    for (const key of summary.keys) found.set(`${name}(${key.map(named).join(", ")})`, "key");
    if (!summary.keys.length) found.set(name, summary.kind);
    for (const column of [...summary.keys.flat(), ...summary.by, ...summary.parts]) found.set(named(column), "column");
    for (const indicator of summary.indicators) found.set(named(indicator), "indicator");
  }
  for (const query of names.queries) found.set(`trend(${named(query.name)})`, "trend");
  return [...found];
}

// A first SELECT over a summary.
function starts({ kind, ask }) {
  return `SELECT * FROM ${ask}${kind === "periodic" ? "" : " FOR ALL"} LIMIT 100`;
}

const named = (name) => /^[a-z_][a-z0-9_]*$/i.test(name) ? name : quoted(name);

export function selectBox(holder, live, names) {
  const known = completions(names), keys = namingOf(names.summaries);
  const text = make("textarea", {
    id: "statement", spellcheck: "false", maxlength: 32768, autocomplete: "off", role: "combobox",
    "aria-expanded": "false", "aria-controls": "completions", "aria-autocomplete": "list",
  });
  let offered = "";
  text.value = session.getItem("muntin-statement") ?? "";
  const list = make("ul", { class: "complete", id: "completions", role: "listbox", hidden: true });
  const run = make("button", { type: "button", onclick: () => ask() }, "run");
  const answer = make("div", { "aria-live": "polite" }), kept = saved(text, () => ask());
  holder.replaceChildren(make("div", { class: "editor" }, text, list),
    make("p", { class: "controls" }, run, kept, make("span", { class: "note" }, " Ctrl+Enter runs; Tab completes; Escape leaves")), answer);
  let chosen = 0, shown = [], asked = 0;

  async function ask() {
    close();
    run.ariaBusy = "true"; // and not disabled, which takes the keyboard's place from it
    const mine = ++asked, statement = text.value, began = performance.now();
    try {
      const found = await live.query(statement);
      if (mine === asked) show(found, performance.now() - began);
    } catch (problem) {
      if (mine !== asked) return;
      const at = problem.position ?? 0, end = at + Math.max(problem.length ?? 0, 1);
      const characters = [...statement], part = (from, to) => characters.slice(from, to).join(""); // 😀 is one
      const place = problem.code && problem.length ? make("div", { class: "error" }, part(0, at),
        make("mark", {}, part(at, end)), part(end)) : null;
      answer.replaceChildren(make("p", { class: "bad", role: "alert" }, problem.message), ...(place ? [place] : []),
        make("p", { class: "note" }, problem.remedy ?? ""));
    }
    if (mine === asked) run.ariaBusy = "false";
  }

  function show(found, milliseconds) {
    const covered = found.windows.map((w) => `${w.source} ${w.asked}: ` +
      (w.covered ? `${moment(w.covered.start)} to ${moment(w.covered.end)}` : "nothing"));
    const more = found.rows.length - ROWS;
    const parts = [`${number(found.rows.length)} rows${more > 0 ? `, the first ${ROWS} shown` : ""}`, ...new Set(covered),
      found.exact ? "exact" : "approximate, see bounds", `watermark ${moment(found.watermark)}`,
      ...(found.revision ? [`revision ${found.revision}`] : []), ...(found.late ? [`${number(found.late)} late`] : []),
      ...(found.stale ? ["STALE"] : []), `${number(milliseconds, 1)} ms`];
    answer.replaceChildren(plotted(found, keys), scroll(table(found.columns, found.rows.slice(0, ROWS), found.types)),
      make("p", { class: found.stale ? "note bad" : "note" }, parts.join(" | ")),
      ...(found.notes ?? []).map((note) => make("p", { class: "note warn" }, note.message)));
  }

  function word() {
    return /[\w(]*$/.exec(text.value.slice(0, text.selectionStart))[0].replace(/^\(+/, "").split("(").at(-1);
  }

  function suggest() {
    const begun = word().toLowerCase();
    shown = begun ? known.filter(([name]) => name.toLowerCase().replace(/^"/, "").startsWith(begun) && name.toLowerCase() !== begun).slice(0, 12) : [];
    chosen = 0;
    list.hidden = !shown.length;
    text.setAttribute("aria-expanded", String(!list.hidden));
    paint();
  }

  function paint() {
    list.replaceChildren(...shown.map(([name, kind], i) => make("li", {
      role: "option", id: `completion-${i}`, "aria-selected": String(i === chosen),
      onmousedown: (event) => { event.preventDefault(); take(name); },
    }, name, " ", make("small", {}, kind))));
    if (list.hidden) text.removeAttribute("aria-activedescendant");
    else text.setAttribute("aria-activedescendant", `completion-${chosen}`);
  }

  function take(name) {
    const end = text.selectionStart, start = end - word().length;
    text.setRangeText(name, start, end, "end");
    close();
    text.focus();
  }

  function close() {
    list.hidden = true;
    shown = [];
    text.setAttribute("aria-expanded", "false");
    paint();
  }

  function write(summary) {
    text.value = starts(summary);
    text.scrollIntoView({ block: "nearest" });
    text.focus();
    ask();
  }

  text.addEventListener("input", suggest);
  text.addEventListener("input", () => session.setItem("muntin-statement", text.value));
  text.addEventListener("blur", close);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
    else if (list.hidden) return;
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") { event.preventDefault(); take(shown[chosen][0]); }
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : shown.length - 1)) % shown.length;
      paint();
    }
  });
  // The first query of a pipeline, where nobody has written something else.
  function offer(pipeline) {
    if (text.value !== offered) return;
    text.value = offered = names.queries.find((query) => query.pipeline === pipeline)?.select ?? "";
    answer.replaceChildren();
  }

  return { ask: write, offer };
}
