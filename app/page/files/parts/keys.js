/* The box in which a key is searched: as one types, the service is asked for keys that begin so.
   Nothing is chosen before Enter or a click. */

import { element, reconcile, setAttribute, setText } from "../base/dom.js";
import { get, pathOf } from "../base/service.js";

const OFFERED = 50;
const SHORT_WAIT_MS = 80;

export class KeyBox {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.store = null;
    this.keys = [];
    this.at = -1;
    this.input = element("input", {
      id: "key", type: "search", role: "combobox", autocomplete: "off", spellcheck: "false",
      "aria-expanded": "false", "aria-controls": "offered", "aria-autocomplete": "list",
    });
    this.list = element("ul", { id: "offered", role: "listbox", "aria-label": "Keys" });
    this.list.hidden = true;
    this.node = element("div", { class: "keybox" },
      element("label", { for: "key" }, "Key"), this.input, this.list);
    this.input.addEventListener("input", () => this.search());
    this.input.addEventListener("keydown", (event) => this.step(event));
    this.input.addEventListener("focus", () => this.input.select());
    // The first click opens the list and selects all; a second one sets the cursor, as ever.
    this.input.addEventListener("mousedown", (event) => {
      if (!this.list.hidden) return;
      event.preventDefault();
      this.input.focus();
      this.input.select();
      this.search("");
    });
    this.input.addEventListener("blur", () => this.close());
    // Before the box loses the focus.
    this.list.addEventListener("pointerdown", (event) => {
      const option = event.target.closest("[role=option]");
      event.preventDefault();
      if (option) this.choose(option.key);
    });
    this.list.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.list;
      if (scrollTop + clientHeight > scrollHeight - 100) this.more();
    }, { passive: true });
  }

  show(store, key, keyType) {
    this.store = store;
    // Numbers and composites are not found by how their text begins: all are offered.
    this.isSearched = keyType === "text";
    this.chosen = key;
    if (document.activeElement !== this.input) this.input.value = key;
  }

  search(prefix = this.input.value) {
    clearTimeout(this.waiting);
    this.asking?.abort();
    this.asking = new AbortController();
    this.prefix = this.isSearched ? prefix : "";
    this.cursor = undefined;
    this.isLoading = false;
    this.waiting = setTimeout(() => this.more(), SHORT_WAIT_MS);
  }

  async more() {
    const { asking } = this;
    if (this.cursor === null || this.isLoading) return;
    this.isLoading = true;
    const query = { prefix: this.prefix, limit: OFFERED, cursor: this.cursor };
    try {
      const page = await get(pathOf("listKeys", { store: this.store }, query), asking);
      this.keys = this.cursor === undefined ? page.keys : [...this.keys, ...page.keys];
      if (this.cursor === undefined) this.at = -1;
      this.cursor = page.next_cursor;
      this.open();
    } catch (error) {
      // What is chosen is shown meanwhile; a search that fails is told by the empty list.
      if (error.name !== "AbortError") this.open(error.message);
    } finally {
      if (asking === this.asking) this.isLoading = false;
    }
  }

  open(problem = null) {
    if (document.activeElement !== this.input) return;
    const note = problem ?? (this.keys.length ? null : `No key begins with “${this.prefix}”.`);
    const items = note === null ? this.keys : [note];
    reconcile(this.list, items, (item, number) => `${number}/${item}`,
      () => element("li", {}), (option, item, number) => {
        option.key = note === null ? item : undefined;
        setText(option, item === "" ? "(the empty key)" : item);
        setAttribute(option, "role", note === null ? "option" : "presentation");
        setAttribute(option, "id", `offered-${number}`);
        setAttribute(option, "aria-selected", note === null ? String(number === this.at) : null);
      });
    this.list.hidden = false;
    setAttribute(this.input, "aria-expanded", "true");
    setAttribute(this.input, "aria-activedescendant", this.at < 0 ? null : `offered-${this.at}`);
    if (this.at >= 0) this.list.children[this.at].scrollIntoView({ block: "nearest" });
  }

  close() {
    clearTimeout(this.waiting);
    this.asking?.abort();
    this.list.hidden = true;
    this.at = -1;
    setAttribute(this.input, "aria-expanded", "false");
    setAttribute(this.input, "aria-activedescendant", null);
    this.input.value = this.chosen;
  }

  step(event) {
    const isOpen = !this.list.hidden;
    if (event.key === "Escape") {
      event.preventDefault();
      this.close();
      this.input.select();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.choose(isOpen && this.at >= 0 ? this.keys[this.at] : this.input.value);
    } else if (["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      if (!isOpen) {
        this.search("");
        return;
      }
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.at = Math.max(-1, Math.min(this.keys.length - 1, this.at + step));
      this.open();
      if (this.at >= this.keys.length - 3) this.more();
    }
  }

  choose(key) {
    this.chosen = key;
    this.close();
    this.input.select();
    this.onChoose(key);
  }
}
