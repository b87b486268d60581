// The connection: subscriptions that outlive it, asking over HTTP, and how well it is.

const EVERY_MS = 3000;

// Calls `ask` for what is new: once in so many milliseconds, one call at a time, never while the page
// is hidden. What comes in between is asked for once, afterwards. With true, for a person, at once.
export function paced(ask, every = EVERY_MS) {
  let due = false, busy = false, timer = null, last = -every;
  const go = () => {
    if (!due || busy || timer != null || document.hidden) return;
    timer = setTimeout(async () => {
      timer = null;
      if (document.hidden) return; // shown again, it goes on
      due = false;
      busy = true;
      last = performance.now();
      try { await ask(); } finally { busy = false; go(); }
    }, Math.max(0, last + every - performance.now()));
  };
  document.addEventListener("visibilitychange", go);
  return (atOnce = false) => {
    due = true;
    if (atOnce) {
      last = -every;
      clearTimeout(timer);
      timer = null;
    }
    go();
  };
}

// For `query`: integers that a number of JavaScript would round are BigInt.
export function exact(text) {
  return JSON.parse(text, (_, value, told) => Number.isInteger(value) && !Number.isSafeInteger(value)
    && /^-?\d+$/.test(told?.source ?? "") ? BigInt(told.source) : value);
}

const RETRY_MS = [1000, 2000, 4000, 5000]; // the whole of it is drawn from: not all pages at once

export class Live {
  constructor(onstate) {
    this.onstate = onstate; // "wait", "live", "lost"
    this.rights = [];
    this.topics = new Map(); // id -> {topic, hear, after, channel}
    this.waiting = new Map(); // id -> {resolve, reject}
    this.numbers = 0;
    this.tries = 0;
    this.token = sessionStorage.getItem("muntin-token") ?? "";
    this.heard = 0;
    this.quiet = 2000;
    setInterval(() => this.watch(), 1000);
  }

  headers() {
    return this.token ? { authorization: `Bearer ${this.token}` } : {};
  }

  async ask(path, body, parse = JSON.parse) {
    const headers = { ...this.headers(), ...(body ? { "content-type": "application/json" } : {}) };
    const options = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
    const answer = await fetch(`.${path}`, options);
    const found = parse(await answer.text());
    if (!answer.ok) throw Object.assign(new Error(found.error.message), found.error, { status: answer.status });
    return found;
  }

  query(select, parse) {
    return this.ask("/query", { select }, parse);
  }

  async open() {
    let ticket = null;
    try {
      if (this.token) {
        const answer = await fetch("./ticket", { method: "POST", headers: this.headers() });
        ticket = (await answer.json()).ticket;
      }
    } catch {
      return this.again();
    }
    const place = new URL("live", location); // beside the page: a proxy may put a path before both
    place.protocol = place.protocol.replace("http", "ws");
    const socket = new WebSocket(place);
    this.socket = socket;
    this.heard = Date.now();
    socket.onopen = () => { if (ticket) socket.send(JSON.stringify({ type: "hello", ticket })); };
    socket.onmessage = (event) => { if (socket === this.socket) this.hear(JSON.parse(event.data)); };
    socket.onclose = () => { if (socket === this.socket) this.again(); };
  }

  again() {
    this.socket = null;
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
      if (topic.channel !== message.channel) continue;
      if (message.after) topic.after = message.after;
      topic.hear(message);
    }
  }

  welcomed(message) {
    this.tries = 0;
    this.rights = message.rights;
    this.quiet = 1000 * message.quiet_seconds;
    this.onstate("live");
    for (const id of this.topics.keys()) this.send(id);
  }

  joined(message) {
    const topic = this.topics.get(message.id);
    if (!topic) return;
    topic.channel = message.channel;
    topic.after = message.after ?? topic.after;
  }

  settled(message) {
    this.waiting.get(message.id)?.resolve(message.answer);
    this.waiting.delete(message.id);
  }

  failed(message) {
    this.waiting.get(message.id)?.reject(new Error(message.message));
    this.waiting.delete(message.id);
    this.topics.get(message.id)?.hear({ type: "refused", error: message });
  }

  subscribe(topic, hear) {
    const id = `t${++this.numbers}`;
    this.topics.set(id, { topic, hear, after: null, channel: null });
    if (this.rights.length && this.socket?.readyState === WebSocket.OPEN) this.send(id);
    return () => {
      this.topics.delete(id);
      if (this.socket?.readyState === WebSocket.OPEN) {
        this.socket.send(JSON.stringify({ type: "unsubscribe", id }));
      }
    };
  }

  send(id) {
    const { topic, after } = this.topics.get(id);
    this.socket.send(JSON.stringify({ type: "subscribe", id, ...topic, ...(after ? { after } : {}) }));
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
