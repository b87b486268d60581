// The coordinator's page: the race, how far it can be trusted, the sites, and what it all costs.
import { moment } from "/static/dom.js";
import { admitted, theme } from "/static/entry.js";
import { Live } from "/static/live.js";
import { costs } from "./costs.js";
import { changes, race } from "./race.js";
import { sites } from "./sites.js";
import { validity, window_ } from "./validity.js";

const at = (id) => document.getElementById(id);
const connection = at("connection");
let stale = "", lostAt = null, run = null;

function say(state) {
  lostAt = state === "live" ? null : lostAt ?? (state === "lost" ? new Date().toLocaleTimeString() : null);
  connection.dataset.state = stale && state === "live" ? "wait" : state;
  connection.textContent = {
    wait: "connecting", live: stale || "live", lost: live.why || `connection lost at ${lostAt}, trying again`,
  }[state];
  document.documentElement.classList.toggle("stale", state === "lost" || Boolean(stale));
}

const live = new Live((state) => {
  live.state = state;
  if (state !== "live") say(state); // until the state comes, what is shown is that of before
});

async function start() {
  theme();
  const first = await admitted(live, "/sites", say);
  run = first.run;
  const { ranking } = first;
  const value = ranking.value === "count" ? "count" : `sum of ${ranking.value}`;
  at("ranking").textContent = `${first.name}: top ${first.answer.k} of ${ranking.summary} by ${ranking.key.join(", ")}, ${value}, last ${window_(ranking)}`;
  const cost = costs(at("bytes").querySelector(".chart"), at("messages").querySelector(".chart"), first.pace);
  const parts = [validity(at("validity"), ranking), race(at("race")), changes(at("changes").querySelector("div")),
    sites(at("sites").querySelector("div"), ranking), cost];
  const draw = (state, now) => {
    const { answer } = state;
    stale = answer.stale ? `stale: nothing new since ${moment(answer.as_of)}` : "";
    document.title = `${answer.valid && !answer.stale ? "" : "? "}${answer.items.slice(0, 3).map((one) => one.item).join(", ")} – Muntin`;
    for (const part of parts) part(state, now);
  };
  draw(first, Date.now());
  live.subscribe({ state: true }, ({ state }) => {
    if (!state) return;
    if (state.coordinator.run !== run) return location.reload(); // another life: counts begin anew
    draw(state.coordinator, state.now / 1000);
    say(live.state);
  });
  live.open();
}

start();
