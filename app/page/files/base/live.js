/* Hearing of changes: Server-Sent Events of a store, and asking now and then where there are none.

   EventSource sends no headers, so no token: the stream is read from fetch. */

import { ask, pathOf } from "./service.js";

const POLL_MS = 2000;
/* The service gives a sign of life every 15 s. */
const SILENCE_MS = 40000;
const RETRY_MS = [250, 500, 1000, 2000, 5000];

export class Live {
  /* onEvent(event) is told { name: "change" | "reset" | "poll", data } with the event's JSON,
     onState "live", "polling" (the stream is away) or "asking" (there is none to be had). It begins
     behind a version that was read; with key null it watches all keys, with store null there is
     no stream: it polls. */
  constructor({ store, key, version }, onEvent, onState) {
    this.watched = { store, key };
    this.onEvent = onEvent;
    this.onState = onState;
    this.lastId = version;
    this.failures = 0;
    this.ending = new AbortController();
    if (store === null) this.poll("asking");
    else this.follow();
  }

  end() {
    this.ending.abort();
    clearTimeout(this.polling);
  }

  async follow() {
    while (!this.ending.signal.aborted) {
      try {
        await this.readStream();
        this.failures = 0;
      } catch {
        if (this.ending.signal.aborted) return;
        this.failures += 1;
        if (this.failures > 1) this.poll();
      }
      const step = Math.min(this.failures, RETRY_MS.length - 1);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[step]));
    }
  }

  poll(state = "polling") {
    clearTimeout(this.polling);
    this.onState(state);
    this.polling = setTimeout(() => {
      this.onEvent({ name: "poll" });
      this.poll(state);
    }, POLL_MS);
  }

  async readStream() {
    const stream = new AbortController();
    const end = () => stream.abort();
    this.ending.signal.addEventListener("abort", end);
    let silence = setTimeout(end, SILENCE_MS);
    try {
      const { store, key } = this.watched;
      const path = pathOf("watch", { store }, { key, after: this.lastId });
      const answer = await ask(path, { accept: "text/event-stream", signal: stream.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      this.isFollowing();
      let rest = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_MS);
        const blocks = (rest + part.value).split("\n\n");
        rest = blocks.pop();
        blocks.forEach((block) => this.take(block));
      }
    } finally {
      clearTimeout(silence);
      this.ending.signal.removeEventListener("abort", end);
    }
  }

  isFollowing() {
    clearTimeout(this.polling);
    this.failures = 0;
    this.onState("live");
  }

  /* One event: its lines are "name: value". A sign of life has an id only. */
  take(block) {
    const fields = Object.fromEntries(block.split("\n").map((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon), line.slice(colon + 2)];
    }));
    if (fields.id !== undefined) this.lastId = fields.id;
    if (fields.data === undefined) return;
    this.onEvent({ name: fields.event, data: fields.data });
  }
}
