// What panels share: follow a SELECT that changes with what is chosen.
import { make, moment } from "./dom.js";

const WINDOWS = [["", "open window"], ["FOR WINDOW LAST", "last closed window"], ["FOR ALL", "all"]];
const LATELY = [["FOR LAST '1 hour'", "last hour"], ["FOR LAST '1 day'", "last day"]];

// What may be chosen of a summary; the first is shown first.
export const windowsOf = (summary, lately = false) => summary.windows
  ? [...(lately ? LATELY : []), ...WINDOWS] : lately ? [...LATELY, WINDOWS[2]] : [WINDOWS[2], ...LATELY];

// Returns a function that follows another statement; `draw(result)` gets each answer.
export function following(live, note, draw) {
  let leave = () => {};
  return (select, on = "update") => {
    leave();
    note.textContent = "asking";
    leave = live.subscribe({ select, on }, (message) => {
      note.textContent = message.error ? message.error.message : covers(message.result);
      if (message.result) draw(message.result);
    }, note.closest("section"));
  };
}

function covers(result) {
  const window = result?.windows[0]?.covered;
  if (!window) return result?.notes[0]?.message ?? ""; // why there is nothing
  const [start, end] = [moment(window.start), moment(window.end)];
  const run = `${start} to ${end.slice(0, 10) === start.slice(0, 10) ? end.slice(11) : end} UTC`;
  return `${run}, ${result.exact ? "exact" : "approximate: bounds in brackets"}${result.stale ? ", STALE" : ""}`;
}

export function parts(section, title, ...controls) {
  const holder = make("div"), note = make("p", { class: "note" });
  section.replaceChildren(make("h2", {}, title, make("span", { class: "controls" }, ...controls)), holder, note);
  return { holder, note };
}
