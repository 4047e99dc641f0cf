/* The search for a key. While you type, the box lists the keys with this prefix. Enter or a click
   chooses one. */

import { element, reconcile, setAttribute, setText } from "../base/dom.js";
import { get, pathOf } from "../base/service.js";

const OFFERED = 50;
const SHORT_WAIT_MS = 80;

export class KeyBox {
  /* onChoose(key) receives the chosen key. With isCleared the box is empty after a choice. */
  constructor(id, label, onChoose, isCleared = false) {
    Object.assign(this, { onChoose, isCleared });
    this.store = null;
    this.keys = [];
    this.at = -1;
    this.input = element("input", {
      id, type: "search", role: "combobox", autocomplete: "off", spellcheck: "false",
      "aria-expanded": "false", "aria-controls": `${id}-offered`, "aria-autocomplete": "list",
    });
    this.list = element("ul", { id: `${id}-offered`, role: "listbox", "aria-label": "Keys" });
    this.list.hidden = true;
    this.node = element("div", { class: "keybox" },
      element("label", { for: id }, label), this.input, this.list);
    this.input.addEventListener("input", () => this.search());
    this.input.addEventListener("keydown", (event) => this.step(event));
    this.input.addEventListener("focus", () => this.input.select());
    // The first click opens the list and selects the text. A second one places the cursor.
    this.input.addEventListener("mousedown", (event) => {
      if (!this.list.hidden) return;
      event.preventDefault();
      this.input.focus();
      this.input.select();
      this.search("");
    });
    this.input.addEventListener("blur", () => this.close());
    // This event precedes the loss of focus.
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
    // Integers and composite keys have no prefix of text, so all of them are listed.
    this.isSearched = keyType === "text";
    this.chosen = this.isCleared ? "" : key;
    if (document.activeElement !== this.input) this.input.value = this.chosen;
  }

  search(prefix = this.input.value) {
    clearTimeout(this.waiting);
    this.reading?.abort();
    this.reading = new AbortController();
    this.prefix = this.isSearched ? prefix : "";
    this.cursor = undefined;
    this.isLoading = false;
    this.waiting = setTimeout(() => this.more(), SHORT_WAIT_MS);
  }

  async more() {
    const { reading } = this;
    if (this.cursor === null || this.isLoading) return;
    this.isLoading = true;
    const query = { prefix: this.prefix, limit: OFFERED, cursor: this.cursor };
    try {
      const page = await get(pathOf("listKeys", { store: this.store }, query), reading);
      this.keys = this.cursor === undefined ? page.keys : [...this.keys, ...page.keys];
      if (this.cursor === undefined) this.at = -1;
      this.cursor = page.next_cursor;
      this.open();
    } catch (error) {
      // The chosen key stays visible. The list shows why the search failed.
      if (error.name !== "AbortError") this.open(error.message);
    } finally {
      if (reading === this.reading) this.isLoading = false;
    }
  }

  open(problem = null) {
    if (document.activeElement !== this.input) return;
    const note = problem ?? (this.keys.length ? null : `No keys with the prefix “${this.prefix}”`);
    const items = note === null ? this.keys : [note];
    reconcile(this.list, items, (item, number) => `${number}/${item}`,
      () => element("li", {}), (option, item, number) => {
        option.key = note === null ? item : undefined;
        setText(option, item === "" ? "(the empty key)" : item);
        setAttribute(option, "role", note === null ? "option" : "presentation");
        setAttribute(option, "id", `${this.input.id}-offered-${number}`);
        setAttribute(option, "aria-selected", note === null ? String(number === this.at) : null);
      });
    this.list.hidden = false;
    setAttribute(this.input, "aria-expanded", "true");
    setAttribute(this.input, "aria-activedescendant", this.at < 0 ? null : `${this.input.id}-offered-${this.at}`);
    if (this.at >= 0) this.list.children[this.at].scrollIntoView({ block: "nearest" });
  }

  close() {
    clearTimeout(this.waiting);
    this.reading?.abort();
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
    this.chosen = this.isCleared ? "" : key;
    this.close();
    this.input.select();
    this.onChoose(key);
  }
}
