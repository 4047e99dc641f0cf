/* The page: which view is shown, how it hears of changes, and what holds for all views. */

import { read } from "./base/address.js";
import { setAttribute, setText } from "./base/dom.js";
import { setZone } from "./base/formats.js";
import { Live } from "./base/live.js";
import { setToken } from "./base/service.js";
import { Letters } from "./views/letters.js";
import { Overview } from "./views/overview.js";
import { StorePage } from "./views/store.js";
import { Wall } from "./views/wall.js";

const VIEWS = { overview: Overview, wall: Wall, store: StorePage, letters: Letters };
const ZONE_HERE = "oriel-zone";
const STATES = {
  live: ["live", "Changes appear as they happen."],
  asking: ["every 2 s", "The page asks for changes."],
  polling: ["asking every 2 s", "The stream of changes is away: the page asks instead."],
  paused: ["paused", "Nothing changes until you go on."],
  lost: ["no connection", "The page goes on asking."],
};

const RETRY_MS = 1000;

const byId = (id) => document.getElementById(id);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Page {
  constructor() {
    this.view = null;
    this.live = null;
    this.isPaused = false;
    this.events = [];
    this.loading = 0;
    addEventListener("hashchange", () => this.load());
    document.addEventListener("visibilitychange",
      () => document.hidden ? this.unfollow() : this.load());
    setInterval(() => { if (!this.isPaused) this.view?.tick?.(); }, 1000);
    byId("pause").addEventListener("click", () => this.pause(!this.isPaused));
    byId("zone").addEventListener("click",
      () => this.useZone(this.zone === "utc" ? "local" : "utc"));
    byId("token").addEventListener("submit", () => {
      setToken(byId("token-text").value.trim());
      this.load();
    });
    this.useZone(localStorage.getItem(ZONE_HERE) ?? "utc");
  }

  /* Shows what the address says, and hears of its changes from then on. */
  async load() {
    this.unfollow();
    this.loading += 1;
    const { loading } = this;
    const choice = read();
    const View = VIEWS[choice.view] ?? Overview;
    const view = this.view instanceof View ? this.view : new View(this);
    for (const anchor of byId("views").children) {
      setAttribute(anchor, "aria-current", anchor.dataset.view === choice.view ? "page" : null);
    }
    try {
      await view.show(choice);
      if (loading !== this.loading) return;
      this.showProblem(null);
    } catch (error) {
      if (loading !== this.loading) return;
      this.showProblem(error);
      if (error.code !== "unauthorized") this.follow({ store: null }, () => this.load());
      return;
    } finally {
      // A view that was shown stays until the next one has something to show, or a problem.
      if (loading === this.loading && this.view !== view) {
        this.view = view;
        byId("view").replaceChildren(view.node);
      }
    }
    this.follow(view.watched(), (event) => this.take(event));
  }

  follow(watched, onEvent) {
    this.unfollow();
    if (this.isPaused || document.hidden) return;
    this.live = new Live(watched, onEvent, (state) => {
      if (state === "live" && this.problem?.code === "unreachable") this.showProblem(null);
      this.showState(this.problem ? "lost" : state);
    });
  }

  unfollow() {
    this.live?.end();
    this.live = null;
    this.events = [];
  }

  /* Events are taken together while the view is busy with those before. What could not be taken
     is made up for by reading anew, again and again until that works. */
  async take(event) {
    this.events.push(event);
    if (this.isTaking) return;
    this.isTaking = true;
    while (this.events.length > 0) {
      const { loading } = this;
      try {
        await this.view.apply(this.events.splice(0));
        if (loading === this.loading) this.showProblem(null);
      } catch (error) {
        if (loading === this.loading) {
          this.showProblem(error);
          if (error.code !== "unauthorized") this.events.unshift({ name: "reset" });
          await wait(RETRY_MS);
        }
      }
      await wait(this.view.minGapMs ?? 50);
    }
    this.isTaking = false;
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    setText(byId("pause"), isPaused ? "Go on" : "Pause");
    if (isPaused) {
      this.unfollow();
      this.showState("paused");
    } else this.load();
  }

  useZone(zone) {
    this.zone = zone;
    localStorage.setItem(ZONE_HERE, zone);
    setZone(zone);
    setText(byId("zone"), zone === "utc" ? "UTC" : "Local time");
    this.load();
  }

  showState(name) {
    const [text, title] = STATES[name];
    const state = byId("state");
    setText(state, text);
    setAttribute(state, "data-state", name);
    setAttribute(state, "title", title);
  }

  /* Says what is wrong above what is shown, which stays; null: nothing is. */
  showProblem(error) {
    this.problem = error;
    byId("problem").hidden = error === null;
    if (error === null) return;
    setText(byId("problem").firstElementChild, error.title ?? "The page failed");
    setText(byId("problem").lastElementChild, error.message);
    if (!this.isPaused) this.showState("lost");
    if (error.code === "unauthorized" && !byId("ask").open) byId("ask").showModal();
  }
}

new Page();
