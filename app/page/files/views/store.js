/* The page of a store: its key, how far it has come, and its windows or rows. */

import { complete, go, link } from "../base/address.js";
import { element, setAttribute, setText } from "../base/dom.js";
import { windowText } from "../base/formats.js";
import { get, pathOf } from "../base/service.js";
import { Facts } from "../parts/facts.js";
import { KeyBox } from "../parts/keys.js";
import { RowsPanel } from "../parts/rows_panel.js";
import { WindowsPanel } from "../parts/windows_panel.js";

export class StorePage {
  constructor(page) {
    this.page = page;
    this.title = element("h1");
    this.kind = element("p", { class: "note" });
    this.wall = element("a", {}, "All keys");
    this.keys = new KeyBox((key) => go({ key }));
    this.controls = element("div", { class: "controls" });
    this.facts = new Facts();
    this.note = element("p", { class: "note empty" },
      "This store has no key yet. The first one is shown as soon as it is there.");
    this.note.hidden = true;
    this.node = element("div", {},
      element("div", { class: "head" },
        element("div", { class: "title" }, this.title, this.kind, this.wall), this.controls),
      this.facts.words, this.note, this.facts.node);
  }

  async show(choice) {
    const { store } = choice;
    const detail = await get(pathOf("describeStore", { store }));
    document.title = `${store} · Oriel`;
    setText(this.title, store);
    setText(this.kind, windowText(detail.definition.window));
    setAttribute(this.wall, "href", link({ view: "wall", store }));
    this.facts.show(detail);
    this.choice = choice;
    if (choice.key === undefined) {
      const { keys } = await get(pathOf("listKeys", { store }, { limit: 1 }));
      this.note.hidden = keys.length > 0;
      if (keys.length === 0) return;
      [choice.key] = keys;
      complete({ store, key: choice.key });
    }
    document.title = `${choice.key} · ${store} · Oriel`;
    this.usePanel(detail.definition.window.kind);
    this.keys.show(store, choice.key, detail.definition.key_type);
    await this.panel.show(choice, detail);
  }

  usePanel(kind) {
    const Panel = kind === "none" ? RowsPanel : WindowsPanel;
    if (this.panel instanceof Panel) return;
    this.panel?.node.remove();
    this.panel = new Panel(this.page);
    this.controls.replaceChildren(this.keys.node, ...this.panel.controls);
    this.facts.node.before(this.panel.node);
  }

  watched() {
    const { store, key } = this.choice;
    if (key === undefined) return { store: null, key: null, version: null };
    // The rows of all keys are listed where there are no windows.
    const isOfKey = this.panel instanceof WindowsPanel;
    return { store, key: isOfKey ? key : null, version: this.panel.version };
  }

  async apply(events) {
    if (this.choice.key === undefined) {
      // The first key may have come.
      await this.page.load();
      return;
    }
    const detail = await get(pathOf("describeStore", { store: this.choice.store }));
    this.facts.show(detail);
    await this.panel.apply(events, detail);
  }

  tick() {
    this.facts.tick();
  }
}
