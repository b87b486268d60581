// Which run of event time the charts show: chosen above them, or by dragging over one of them.
import { choice, moment } from "./dom.js";

const HOUR = 3600e6;
const SPANS = [["", "all time"], [HOUR, "last hour"], [6 * HOUR, "last 6 hours"], [24 * HOUR, "last day"],
  [168 * HOUR, "last week"], [720 * HOUR, "last 30 days"]];

export class Range {
  constructor(holder) {
    this.hearers = [];
    this.last = this.from = this.until = null;
    this.newest = null; // event time of the pipeline that is shown
    this.select = choice("time shown (UTC)", SPANS, (value) => this.set(value ? Number(value) : null));
    holder.replaceChildren(this.select);
    this.zoom = (from, until) => this.set(null, from, until);
  }

  set(last, from = null, until = null) {
    Object.assign(this, { last, from, until });
    this.select.querySelector("[data-zoom]")?.remove();
    if (from != null) {
      const option = new Option(`${moment(Math.round(from))} to ${moment(Math.round(until))}`, "zoom", true, true);
      option.dataset.zoom = "";
      this.select.append(option);
    } else this.select.value = last ?? "";
    this.changed();
  }

  // Another pipeline: a run of time that was chosen of the one before says nothing of it.
  turn(newest) {
    this.newest = newest;
    this.set(this.last);
  }

  onchange(hear) { this.hearers.push(hear); }

  changed() { for (const hear of this.hearers) hear(); }

  // ISO 8601 of both ends; null where it is open.
  ends() {
    const iso = (us) => us == null ? null : new Date(Math.round(us / 1000)).toISOString();
    const from = this.last != null && this.newest != null ? this.newest - this.last : this.from;
    return [iso(from), iso(this.until)];
  }
}
