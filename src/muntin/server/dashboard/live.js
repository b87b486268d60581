// The connection: subscriptions that outlive it, asking over HTTP, and how well it is.
import { session } from "./dom.js";

const EVERY_MS = 3000;

// Calls `ask` for what is new: once in so many milliseconds, one call at a time, never while the page
// is hidden. What comes in between is asked for once, afterwards. With true, for a person, at once.
export function paced(ask) {
  let due = false, busy = false, timer = null, last = -EVERY_MS;
  const go = () => {
    if (!due || busy || timer != null || document.hidden) return;
    timer = setTimeout(async () => {
      timer = null;
      if (document.hidden) return; // shown again, it goes on
      due = false;
      busy = true;
      last = performance.now();
      try { await ask(); } finally { busy = false; go(); }
    }, Math.max(0, last + EVERY_MS - performance.now()));
  };
  document.addEventListener("visibilitychange", go);
  return (atOnce = false) => {
    due = true;
    if (atOnce) {
      last = -EVERY_MS;
      clearTimeout(timer);
      timer = null;
    }
    go();
  };
}

// Asks for what there is while more is told: what was told since then is shown after it, and of several
// answers only that to the newest question.
export function caughtUp(ask, show, hear) {
  let since = null;
  const told = (one) => { since?.push(one); hear(one); };
  const fill = async () => {
    const mine = since = [];
    try {
      const found = await ask();
      if (since !== mine) return;
      show(found);
      for (const one of mine) hear(one);
    } finally { if (since === mine) since = null; }
  };
  return { told, fill };
}

// Integers that a number of JavaScript would round are BigInt.
function exact(text) {
  return JSON.parse(text, (_, value, told) => Number.isInteger(value) && !Number.isSafeInteger(value)
    && /^-?\d+$/.test(told?.source ?? "") ? BigInt(told.source) : value);
}

// What a page says that may not connect, which trying again does not mend; of any other problem nothing.
export const refusal = ({ status, message, remedy }) => status === 403 ? [message, remedy].filter(Boolean).join(": ") : "";

const RETRY_MS = [1000, 2000, 4000, 5000]; // the whole of it is drawn from: not all pages at once
const AT_ONCE = 25, TELL_MS = 75; // messages to a server, which takes 40 and then 20 a second

export class Live {
  constructor(onstate) {
    this.onstate = onstate; // "wait", "live", "lost"
    this.why = ""; // it is lost, where the server has said so
    this.rights = [];
    this.topics = new Map(); // id -> {topic, hear, section, joined, told, channel}; hear is null once it is left
    this.seen = new Set(); // sections on the screen, or near it: what nobody looks at is not followed
    this.sight = new IntersectionObserver((all) => {
      for (const { target, isIntersecting } of all) this.seen[isIntersecting ? "add" : "delete"](target);
      this.tell();
    }, { rootMargin: "500px 0px 3000px" }); // some 50 cards: a server lets a client follow 64 topics
    this.welcome = false;
    this.waiting = new Map(); // id -> {resolve, reject}
    this.numbers = 0;
    this.tries = 0;
    this.token = session.getItem("muntin-token") ?? "";
    this.heard = 0;
    this.quiet = 2000;
    setInterval(() => this.watch(), 1000);
  }

  headers() {
    return this.token ? { authorization: `Bearer ${this.token}` } : {};
  }

  async ask(path, body) {
    const headers = { ...this.headers(), ...(body ? { "content-type": "application/json" } : {}) };
    const options = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
    const answer = await fetch(`.${path}`, options).catch(() => { throw new Error("the server cannot be reached"); });
    const found = exact(await answer.text());
    if (!answer.ok) throw Object.assign(new Error(found.error.message), found.error, { status: answer.status });
    return found;
  }

  query(select) {
    return this.ask("/query", { select });
  }

  async open() {
    let ticket;
    try {
      ({ ticket } = await this.ask("/ticket", {}));
    } catch (problem) {
      this.why = refusal(problem);
      return problem.status === 401 ? location.reload() : this.again(); // a token is needed now, or another
    }
    const place = new URL("live", location); // beside the page: a proxy may put a path before both
    place.protocol = place.protocol.replace("http", "ws");
    const socket = new WebSocket(place);
    this.socket = socket;
    this.heard = Date.now();
    socket.onopen = () => { if (this.token) socket.send(JSON.stringify({ type: "hello", ticket })); };
    socket.onmessage = (event) => { if (socket === this.socket) this.hear(exact(event.data)); };
    socket.onclose = () => { if (socket === this.socket) this.again(); };
  }

  again() {
    this.socket = null;
    this.welcome = false;
    for (const { reject } of this.waiting.values()) reject(new Error("the connection was lost"));
    this.waiting.clear();
    this.onstate("lost");
    const pause = RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)];
    setTimeout(() => this.open(), pause * Math.random());
  }

  // A connection that says nothing is lost, though nobody has closed it.
  watch() {
    if (this.socket && Date.now() - this.heard > 4 * this.quiet + 2000) {
      const silent = this.socket;
      this.again();
      silent.close();
    }
  }

  hear(message) {
    this.heard = Date.now();
    const by = { welcome: "welcomed", subscribed: "joined", done: "settled", error: "failed" };
    if (by[message.type]) return this[by[message.type]](message);
    for (const topic of this.topics.values()) {
      if (topic.channel === message.channel) topic.hear?.(message);
    }
  }

  welcomed(message) {
    this.tries = 0;
    this.why = "";
    this.rights = message.rights;
    this.quiet = 1000 * message.quiet_seconds;
    this.onstate("live");
    for (const topic of this.topics.values()) Object.assign(topic, { told: false, channel: null });
    this.welcome = true;
    this.spare = AT_ONCE;
    this.tell();
  }

  joined(message) {
    const topic = this.topics.get(message.id);
    if (!topic?.hear) return;
    topic.channel = message.channel;
    topic.joined?.();
  }

  settled(message) {
    this.waiting.get(message.id)?.resolve(message.answer);
    this.waiting.delete(message.id);
  }

  failed(message) {
    this.waiting.get(message.id)?.reject(new Error(message.message));
    this.waiting.delete(message.id);
    const topic = this.topics.get(message.id), { socket } = this;
    topic?.hear?.({ type: "refused", error: message });
    if (topic && /^(busy|ledger)$/.test(message.code)) { // for a time: it is asked for again
      setTimeout(() => { if (socket === this.socket) { topic.told = false; this.tell(); } }, EVERY_MS);
    }
  }

  // `hear` gets each message; of a section, while it is on the screen. `joined` is called each time that
  // it begins: what was before can be asked for then.
  subscribe(topic, hear, section = null, joined = null) {
    const one = { topic, hear, section, joined, told: false, channel: null };
    this.topics.set(`t${++this.numbers}`, one);
    if (section) this.sight.observe(section);
    this.tell();
    return () => { one.hear = null; this.tell(); };
  }

  // Tells the server what is followed now, as fast as it listens.
  tell() {
    clearTimeout(this.later);
    if (!this.welcome || this.socket?.readyState !== WebSocket.OPEN) return;
    const now = performance.now();
    this.spare = Math.min(AT_ONCE, this.spare + (now - (this.toldAt ?? now)) / TELL_MS);
    this.toldAt = now;
    for (const [id, one] of this.topics) {
      const wanted = one.hear != null && (!one.section || this.seen.has(one.section));
      if (wanted !== one.told) {
        if (this.spare < 1) return void (this.later = setTimeout(() => this.tell(), TELL_MS));
        this.spare -= 1;
        one.told = wanted;
        one.channel = null;
        this.socket.send(JSON.stringify(wanted ? { type: "subscribe", id, ...one.topic } : { type: "unsubscribe", id }));
      }
      if (!one.hear) this.topics.delete(id);
    }
  }

  command(type, summary) {
    if (this.socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("not connected"));
    const id = `c${++this.numbers}`;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ type, id, summary }));
    });
  }
}
