// Whether the answer holds, as of when, over which sites, and how far it may be off.
import { duration, make, moment, number, short } from "/static/dom.js";

const PHASES = {
  idle: "no site is there yet", survey: "asking all sites", calm: "sites are silent: the answer holds",
  polling: "a constraint broke: resolving", watching: "close race: sites push the contenders",
};

export const window_ = (ranking) => `${duration(ranking.window_us)}, in units of ${duration(ranking.unit_us)}`;

function figure(value, name, level = "") {
  return make("div", { class: `figure ${level}` }, make("b", {}, value), make("span", {}, name));
}

function verdict(answer) {
  if (answer.stale) return ["stale", "bad"];
  return answer.valid ? ["valid", "good"] : ["unsure", "warn"];
}

export function times(naive, sent) {
  if (!sent || !naive) return "–";
  const ratio = naive / sent;
  return `${ratio >= 10 ? Math.round(ratio) : ratio.toFixed(1)}×`;
}

export function validity(holder) {
  const figures = holder.querySelector("div"), note = holder.querySelector("p");
  return (state) => {
    const { answer, traffic } = state;
    const [word, level] = verdict(answer);
    const away = answer.missing_sites;
    const saved = traffic.sent.bytes < traffic.naive.bytes;
    holder.classList.toggle("doubt", level !== "good");
    figures.replaceChildren(
      figure(word, "the answer", level),
      figure(answer.as_of == null ? "–" : moment(answer.as_of), "as of (UTC)", answer.stale ? "bad" : ""),
      figure(answer.bound == null ? "unknown" : `≤ ${number(answer.bound)}`, "an outsider is above a member by",
        answer.bound == null ? "warn" : ""),
      figure(away.length ? away.join(", ") : "none", "missing sites", away.length ? "bad" : ""),
      figure(times(traffic.naive.bytes, traffic.sent.bytes), "naive bytes for each byte sent", saved ? "good" : ""),
      figure(short(traffic.sent.messages), `messages (naive: ${short(traffic.naive.messages)})`),
    );
    const { partial, full } = state.resolutions;
    const said = `${answer.problem ? `${answer.problem}; ` : ""}${PHASES[state.phase] ?? state.phase}; ${number(state.changes)} ${state.changes === 1 ? "change" : "changes"} of the top, ` +
      `resolutions: ${number(partial)} partial, ${number(full)} full; surveys: ${number(state.surveys)}`;
    if (note.textContent !== said) note.textContent = said;
  };
}
