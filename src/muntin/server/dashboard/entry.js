// What every page begins with: light or dark, and a token where the server asks for one.
import { local, session } from "./dom.js";
import { refusal } from "./live.js";

const at = (id) => document.getElementById(id);

export function theme() {
  const root = document.documentElement;
  if (local.getItem("muntin-theme")) root.dataset.theme = local.getItem("muntin-theme");
  at("theme").onclick = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    local.setItem("muntin-theme", root.dataset.theme);
  };
}

// What `path` answers, once the token (if one is needed) is right and the server answers.
export async function admitted(live, path, say) {
  const form = at("token");
  for (;;) {
    try {
      const found = await live.ask(path);
      form.hidden = true;
      live.why = "";
      return found;
    } catch (problem) {
      if (problem.status !== 401) {
        live.why = refusal(problem);
        say("lost");
        await new Promise((resolve) => setTimeout(resolve, 1000));
        continue;
      }
      form.hidden = false;
      form.querySelector("[role=alert]").textContent = live.token ? "that is not it" : "";
      form.querySelector("input").focus();
      await new Promise((resolve) => { form.onsubmit = (event) => { event.preventDefault(); resolve(); }; });
      live.token = form.querySelector("input").value;
      session.setItem("muntin-token", live.token);
    }
  }
}
