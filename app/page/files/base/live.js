/* Updates: Server-Sent Events of a store, or polling if no stream is available.

   EventSource can't send a token, so the stream is read with fetch. */

import { pathOf, request } from "./service.js";

const POLL_MS = 2000;
/* The service sends a heartbeat every 15 s. */
const SILENCE_MS = 40000;
const RETRY_MS = [250, 500, 1000, 2000, 5000];

export class Live {
  /* Calls onEvent with { name: "change" | "reset" | "poll", data, id }, where data is JSON, and onState
     with "live", "fallback" (the stream failed) or "polling" (nothing can be streamed).

     query has the parameters of `watch`. Its `after` is the place that was read, or the id of the last event. store is null
     if there is nothing to stream. */
  constructor({ store, query = {} }, onEvent, onState) {
    Object.assign(this, { store, query, onEvent, onState });
    this.lastId = query.after;
    this.failures = 0;
    this.ending = new AbortController();
    if (store === null) this.poll("polling");
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
        if (this.failures > 1) this.poll("fallback");
      }
      const step = Math.min(this.failures, RETRY_MS.length - 1);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[step]));
    }
  }

  poll(state) {
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
      const path = pathOf("watch", { store: this.store }, { ...this.query, after: this.lastId });
      const response = await request(path,
        { accept: "text/event-stream", signal: stream.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      clearTimeout(this.polling);
      this.failures = 0;
      this.onState("live");
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

  /* One event: its lines are "name: value". A heartbeat has an id only. */
  take(block) {
    const fields = Object.fromEntries(block.split("\n").map((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon), line.slice(colon + 2)];
    }));
    if (fields.id !== undefined) this.lastId = fields.id;
    if (fields.data === undefined) return;
    this.onEvent({ name: fields.event, data: fields.data, id: fields.id });
  }
}
