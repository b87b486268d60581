// What panels share: follow a SELECT that changes with what is chosen.
import { make } from "./dom.js";

export const WINDOWS = [["", "open window"], ["FOR WINDOW LAST", "last closed window"], ["FOR ALL", "all"]];

// Returns a function that follows another statement; `draw(result)` gets each answer.
export function following(live, note, draw) {
  let leave = () => {};
  return (select, on = "update") => {
    leave();
    leave = live.subscribe({ select, on }, (message) => {
      note.textContent = message.error ? message.error.message : covers(message.result);
      if (message.result) draw(message.result);
    });
  };
}

function covers(result) {
  const window = result?.windows[0]?.covered;
  if (!window) return "nothing yet";
  const run = `${window.start.slice(0, 16).replace("T", " ")} to ${window.end.slice(0, 16).replace("T", " ")}`;
  return `${run}, ${result.exact ? "exact" : "approximate: bounds in brackets"}${result.stale ? ", STALE" : ""}`;
}

export function parts(section, title, ...controls) {
  const holder = make("div"), note = make("p", { class: "note" });
  section.replaceChildren(make("h2", {}, title, make("span", { class: "controls" }, ...controls)), holder, note);
  return { holder, note };
}
