/* The page of a store: its keys, how current it is, and its windows or rows. */

import { complete, go, link, write } from "../base/address.js";
import { button, element, setAttribute, setText } from "../base/dom.js";
import { windowText } from "../base/formats.js";
import { fits, get, pathOf } from "../base/service.js";
import { SERIES_MAX } from "../parts/chart_card.js";
import { Facts } from "../parts/facts.js";
import { KeyBox } from "../parts/keys.js";
import { RowsPanel } from "../parts/rows_panel.js";
import { WindowsPanel } from "../parts/windows_panel.js";
import { addToBoard } from "./board.js";

/* The facts are about all keys, so they can be older than the windows. */
const FACTS_MS = 5000;

export class StorePage {
  constructor(page) {
    this.page = page;
    this.title = element("h1");
    this.kind = element("p", { class: "note" });
    this.wall = element("a", {}, "All keys");
    this.board = button("Add to board", () => addToBoard(write({ ...this.choice, view: null })));
    this.keys = new KeyBox("key", "Key", (key) => go({ keys: [key] }));
    this.more = new KeyBox("add-key", "Add a key",
      (key) => go({ keys: [...this.choice.keys, key].slice(0, SERIES_MAX) }), true);
    this.controls = element("div", { class: "controls" });
    this.facts = new Facts();
    this.note = element("p", { class: "note empty" },
      "This store has no key yet. The page shows the first key when a record creates it.");
    this.note.hidden = true;
    this.node = element("div", {},
      element("div", { class: "head" },
        element("div", { class: "title" }, this.title, this.kind, this.wall, this.board),
        this.controls),
      this.facts.words, this.note, this.facts.node);
  }

  async show(choice) {
    const { store } = choice;
    const detail = await get(pathOf("describeStore", { store }));
    document.title = `${store} · Oriel`;
    setText(this.title, store);
    setText(this.kind, windowText(detail.definition.window));
    setAttribute(this.wall, "href", link({ view: "wall", store, formats: choice.formats }));
    this.useDetail(detail);
    this.choice = choice;
    if (choice.keys.length === 0) {
      const { keys } = await get(pathOf("listKeys", { store }, { limit: 1 }));
      this.note.hidden = keys.length > 0;
      if (keys.length === 0) return;
      choice.keys = keys;
      complete({ store, keys });
    }
    document.title = `${choice.keys.join(", ")} · ${store} · Oriel`;
    this.usePanel(detail.definition.window.kind);
    for (const box of [this.keys, this.more]) {
      box.show(store, choice.keys[0], detail.definition.key_type);
    }
    await this.panel.show(choice, detail);
  }

  usePanel(kind) {
    const Panel = fits("get", kind) ? RowsPanel : WindowsPanel;
    if (this.panel instanceof Panel) return;
    this.panel?.node.remove();
    this.panel = new Panel(this.page);
    const isWindowed = Panel === WindowsPanel;
    this.board.hidden = !isWindowed;
    this.controls.replaceChildren(this.keys.node, ...(isWindowed ? [this.more.node] : []),
      ...this.panel.controls);
    this.facts.node.before(this.panel.node);
  }

  watched() {
    if (this.choice.keys.length === 0) return { store: null };
    return { store: this.choice.store, query: this.panel.watched };
  }

  async apply(events) {
    if (this.choice.keys.length === 0) {
      // The first key can exist by now. The page waits for this call before it loads the view.
      this.page.load();
      return;
    }
    this.facts.change();
    await this.panel.apply(events);
    await this.refreshFacts();
  }

  useDetail(detail) {
    this.facts.show(detail);
    this.factsMs = Date.now();
  }

  /* Reads the facts again if events have changed them, but not for each event. */
  async refreshFacts() {
    if (!this.facts.isOld || Date.now() - this.factsMs < FACTS_MS) return;
    this.factsMs = Date.now();
    const { store } = this.choice;
    const detail = await get(pathOf("describeStore", { store }));
    if (store === this.choice.store) this.useDetail(detail);
  }

  tick() {
    this.facts.tick();
    // The view shows the same problem with its next request.
    this.refreshFacts().catch(() => {});
  }
}
