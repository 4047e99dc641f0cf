/* The page: which view is shown, how it receives updates, and what all views have in common. */

import { read } from "./base/address.js";
import { element, reconcile, setAttribute, setText } from "./base/dom.js";
import { age, setZone } from "./base/formats.js";
import { Live } from "./base/live.js";
import { setToken } from "./base/service.js";
import { isWell, readStatus } from "./base/status.js";
import { Board, boardLink } from "./views/board.js";
import { Letters } from "./views/letters.js";
import { Overview } from "./views/overview.js";
import { StorePage } from "./views/store.js";
import { Wall } from "./views/wall.js";

const VIEWS = { overview: Overview, wall: Wall, store: StorePage, board: Board, letters: Letters };
const ZONE_HERE = "oriel-zone";
const STATES = {
  live: ["live", "Updates arrive as they happen."],
  polling: ["every 2 s", "The page requests updates every 2 s."],
  fallback: ["polling every 2 s", "The stream of updates is unavailable, so the page polls."],
  paused: ["updates paused", "Choose Resume to receive updates."],
  lost: ["service unreachable", "The page tries again every second."],
  problem: ["problem", "See the message on the page."],
};
const RETRY_MS = 1000;
const STATUS_MS = 5000;

const byId = (id) => document.getElementById(id);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Page {
  constructor() {
    this.view = null;
    this.lives = [];
    this.isPaused = false;
    this.events = [];
    this.loading = 0;
    /* The load whose events are being applied. */
    this.taking = null;
    this.applying = null;
    /* The last response of /v1/status. */
    this.status = null;
    addEventListener("hashchange", () => this.load());
    document.addEventListener("visibilitychange",
      () => document.hidden ? this.unfollow() : this.load());
    setInterval(() => this.tick(), 1000);
    setInterval(() => this.pollStatus(), STATUS_MS);
    byId("pause").addEventListener("click", () => this.pause(!this.isPaused));
    byId("zone").addEventListener("click",
      () => this.useZone(this.zone === "utc" ? "local" : "utc"));
    byId("token").addEventListener("submit", () => {
      setToken(byId("token-text").value.trim());
      this.load();
    });
    this.useZone(localStorage.getItem(ZONE_HERE) ?? "utc");
  }

  /* Shows what the address says, and follows its changes. */
  async load() {
    this.unfollow();
    this.loading += 1;
    const { loading } = this;
    const choice = read();
    const View = VIEWS[choice.view] ?? Overview;
    const view = this.view instanceof View ? this.view : new View(this);
    for (const anchor of byId("views").children) {
      setAttribute(anchor, "aria-current", anchor.dataset.view === choice.view ? "page" : null);
      if (anchor.dataset.view === "board") setAttribute(anchor, "href", boardLink());
    }
    try {
      // A view that still applies events would overwrite what it reads now.
      if (view === this.view) await this.applying?.catch(() => {});
      await view.show(choice);
      if (loading !== this.loading) return;
      this.showProblem(null);
    } catch (error) {
      if (loading !== this.loading) return;
      this.showProblem(error);
      if (error.code !== "unauthorized") this.follow([{ store: null }], () => this.load());
      return;
    } finally {
      // The former view stays until the next one has something to show, or has failed.
      if (loading === this.loading && this.view !== view) {
        this.view = view;
        byId("view").replaceChildren(view.node);
      }
    }
    this.follow([view.watched()].flat(), (event) => this.take(event));
    this.pollStatus();
  }

  follow(watched, onEvent) {
    this.unfollow();
    if (this.isPaused || document.hidden) return;
    this.lives = watched.map(({ store, query }) => new Live({ store, query },
      (event) => onEvent({ ...event, store }), (state) => this.useState(state)));
  }

  unfollow() {
    this.lives.forEach((live) => live.end());
    this.lives = [];
    this.events = [];
  }

  useState(state) {
    if (state === "live" && this.problem?.code === "unreachable") this.showProblem(null);
    this.state = state;
    this.showState();
  }

  /* Applies all events that arrived while the view was busy. If this fails, the view reads again
     until it succeeds. Each load of a view has its own loop. */
  async take(event) {
    this.events.push(event);
    const { loading } = this;
    if (this.taking === loading) return;
    this.taking = loading;
    while (this.events.length > 0 && loading === this.loading) {
      try {
        this.applying = this.view.apply(this.events.splice(0));
        await this.applying;
        if (loading === this.loading) this.showProblem(null);
      } catch (error) {
        if (loading !== this.loading) return;
        this.showProblem(error);
        if (error.code !== "unauthorized") this.events.unshift({ name: "reset" });
        await wait(RETRY_MS);
      }
      await wait(this.view.minGapMs ?? 50);
    }
    if (this.taking === loading) this.taking = null;
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    setText(byId("pause"), isPaused ? "Resume" : "Pause");
    if (isPaused) {
      this.unfollow();
      this.showState();
    } else this.load();
  }

  useZone(zone) {
    this.zone = zone;
    localStorage.setItem(ZONE_HERE, zone);
    setZone(zone);
    setText(byId("zone"), zone === "utc" ? "UTC" : "Local time");
    this.load();
  }

  async pollStatus() {
    if (this.isPaused || document.hidden || this.problem || this.view === null) return;
    try {
      await this.readStatus();
      this.showState();
    } catch {
      // The view shows the same problem with its next request.
    }
  }

  async readStatus() {
    this.status = await readStatus();
    this.showPipelines();
  }

  /* The pipelines of the view that do not work. The overview lists all pipelines itself. */
  troubled() {
    const { store } = read();
    return (this.status?.pipelines ?? []).filter((pipeline) => !isWell(pipeline)
      && (store === undefined || pipeline.stores.includes(store)));
  }

  showPipelines() {
    const shown = this.view instanceof Overview ? [] : this.troubled();
    reconcile(byId("pipelines"), shown, ({ pipeline }) => pipeline,
      () => element("p", {}, element("strong"), element("span")),
      (node, { problem, seen_ms: seenMs }) => {
        setText(node.firstChild, "Windows do not change. ");
        setText(node.lastChild, `${problem} Last heartbeat: ${age(Date.now() - seenMs)} ago.`);
      });
    byId("pipelines").hidden = shown.length === 0;
  }

  tick() {
    if (this.isPaused) return;
    this.view?.tick?.();
    if (this.problem === null) this.showPipelines();
  }

  /* The state of the page's updates, or of the pipeline that should cause them. */
  showState() {
    let name = this.state;
    if (this.problem) name = this.problem.code === "unreachable" ? "lost" : "problem";
    if (this.isPaused) name = "paused";
    if (name === undefined) return;
    let [text, title] = STATES[name];
    const [pipeline] = this.troubled();
    if (pipeline !== undefined && ["live", "polling", "fallback"].includes(name)) {
      text = pipeline.state === "running" ? "log unavailable" : `pipeline ${pipeline.state}`;
      [name, title] = ["stale", pipeline.problem];
    }
    const state = byId("state");
    setText(state, text);
    setAttribute(state, "data-state", name);
    setAttribute(state, "title", title);
  }

  /* Shows a problem above the view, which stays. null: no problem. */
  showProblem(error) {
    this.problem = error;
    byId("problem").hidden = error === null;
    if (error !== null) {
      setText(byId("problem").firstElementChild, error.title ?? "The page failed");
      setText(byId("problem").lastElementChild, error.message);
      if (error.code === "unauthorized" && !byId("ask").open) byId("ask").showModal();
    }
    this.showState();
  }
}

new Page();
