// Items that come in regular intervals, and when each is expected next.
import { choice, quoted, table } from "../dom.js";
import { following, parts, WINDOWS } from "../following.js";

export default function panel(section, summary, live) {
  let window = "FOR ALL";
  const again = () => follow("SELECT item, interval, periodicity, lower, upper, next_expected " +
    `FROM periodic(${quoted(summary.name)}, 10) ${window}`);
  const windows = choice("window", [...WINDOWS].reverse(), (v) => { window = v; again(); });
  const { holder, note } = parts(section, `Periodic in ${summary.name}`, windows);
  const follow = following(live, note, ({ columns, rows, types }) =>
    holder.replaceChildren(table(columns, rows, types)));
  again();
}
