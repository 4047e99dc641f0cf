/* The wall: the current window (or the row) of every key as a tile, stronger where it is more. */

import { complete, go, link } from "../base/address.js";
import { element, reconcile, setAttribute, setText } from "../base/dom.js";
import {
  isNumber, number, shortNumber, span, time, unitOf, windowText, withUnit,
} from "../base/formats.js";
import { fits, get, pathOf } from "../base/service.js";
import { nounOf, numericAggregates } from "../base/windows.js";
import { select } from "../parts/select.js";

const TILES_MAX = 2000;
const PAGE_ROWS = 1000;
/* Changes are told against the value of so long ago, or of when the page was opened. */
const COMPARED_MS = 60000;
const SORTS = [["value", "value"], ["change", "change"], ["key", "key"]];
const STRENGTHS = 8;

export class Wall {
  constructor(page) {
    this.page = page;
    this.minGapMs = 1000;
    this.title = element("h1");
    this.back = element("a", {}, "One key");
    this.kind = element("p", { class: "note" });
    this.aggregates = select("aggregate", "Aggregate", (aggregate) => go({ aggregate }));
    this.sorts = select("sort", "Sorted by", (sort) => go({ sort }));
    this.prefix = element("input", { id: "prefix", type: "search", autocomplete: "off" });
    this.prefix.addEventListener("input", () => {
      complete({ prefix: this.prefix.value || null });
      page.load();
    });
    this.note = element("p", { class: "note words" });
    this.readout = element("output", { class: "readout", "aria-live": "polite" });
    this.tiles = element("ul", { class: "tiles" });
    // The pointer and the keyboard reach the same facts.
    for (const name of ["pointerover", "focusin"]) {
      this.tiles.addEventListener(name, (event) => {
        const anchor = event.target.closest("a");
        if (anchor) setText(this.readout, `${anchor.firstChild.textContent}: ${anchor.facts}`);
      });
    }
    this.node = element("div", {},
      element("div", { class: "head" },
        element("div", { class: "title" }, this.title, this.kind, this.back),
        element("div", { class: "controls" },
          element("label", {}, "Keys that begin with", this.prefix),
          this.aggregates.label, this.sorts.label)),
      this.note, this.readout, this.tiles);
  }

  async show(choice) {
    const { store } = choice;
    const detail = await get(pathOf("describeStore", { store }));
    const { definition } = detail;
    const numeric = numericAggregates(definition);
    const aggregate = numeric.find((each) => each.name === choice.aggregate) ?? numeric[0];
    const shownFor = [store, aggregate?.name].join("/");
    if (shownFor !== this.shownFor) this.seen = new Map();
    Object.assign(this, { choice, definition, aggregate, shownFor });
    document.title = `All keys · ${store} · Oriel`;
    setText(this.title, store);
    setText(this.kind, windowText(definition.window));
    setAttribute(this.back, "href", link({ store }));
    if (document.activeElement !== this.prefix) this.prefix.value = choice.prefix ?? "";
    this.aggregates.show(numeric.map(({ name }) => [name, name]), aggregate?.name);
    this.sorts.show(SORTS, choice.sort ?? "value");
    await this.read();
    this.draw();
  }

  watched() {
    return { store: this.choice.store, key: null, version: this.version };
  }

  async apply() {
    await this.read();
    this.draw();
  }

  async read() {
    const { store, prefix } = this.choice;
    const isWindowed = fits("currentAll", this.definition.window.kind);
    const operation = isWindowed ? "currentAll" : "prefixScan";
    const columns = this.aggregate?.name;
    const rows = [];
    let cursor = null;
    do {
      const query = { prefix, limit: PAGE_ROWS, columns, cursor };
      const page = await get(pathOf(operation, { store }, query));
      if (cursor === null) this.version = page.position.version;
      rows.push(...(isWindowed ? page.windows : page.rows));
      cursor = page.next_cursor;
    } while (cursor !== null && rows.length < TILES_MAX);
    this.hasMore = cursor !== null;
    this.rows = rows.slice(0, TILES_MAX);
  }

  draw() {
    const { rows, aggregate } = this;
    const kind = this.definition.window.kind;
    const items = rows.map((row) => {
      const content = aggregate === undefined ? null : row[aggregate.name];
      const amount = isNumber(content) ? Number(content) : null;
      return { row, amount, change: this.changeOf(row.key, amount) };
    });
    this.sort(items);
    const amounts = items.map((item) => item.amount).filter((amount) => amount !== null);
    const low = amounts.reduce((least, amount) => Math.min(least, amount), Infinity);
    const high = amounts.reduce((most, amount) => Math.max(most, amount), -Infinity);
    // A tile is a place: moving a thousand elements about would hold up the frame.
    reconcile(this.tiles, items, (_, place) => place, makeTile,
      (tile, item) => this.fill(tile, item, (item.amount - low) / (high - low || 1)));
    const what = kind === "none" ? "row" : `current ${nounOf(kind, 1)}`;
    const count = this.hasMore ? `the first ${number(rows.length)} keys (narrow them by what they `
      + "begin with)" : rows.length === 1 ? "one key" : `${number(rows.length)} keys`;
    setText(this.note, rows.length === 0 ? "No key begins so."
      : `${aggregate?.function ?? "The newest record"} in the ${what} of ${count}. A change is `
        + "told against a minute ago, or the opening of this page.");
  }

  /* Sorts as chosen; while somebody is at the tiles each key keeps its place. */
  sort(items) {
    const { sort = "value" } = this.choice;
    if (sort === this.sorted && this.tiles.matches(":hover, :focus-within")) {
      const placeOf = (item) => this.places.get(item.row.key) ?? Infinity;
      items.sort((a, b) => placeOf(a) - placeOf(b) || 0);
    } else items.sort(ORDERS[sort]);
    this.sorted = sort;
    this.places = new Map(items.map((item, place) => [item.row.key, place]));
  }

  /* The change of a key's value since a minute ago, as far as this page has seen it. */
  changeOf(key, amount) {
    if (amount === null) return 0;
    const now = Date.now();
    const seen = this.seen.get(key) ?? [];
    if (seen.at(-1)?.amount !== amount) seen.push({ amount, ms: now });
    // What was so at that time is the last value from before it.
    while (seen.length > 1 && seen[1].ms < now - COMPARED_MS) seen.shift();
    this.seen.set(key, seen);
    return amount - seen[0].amount;
  }

  fill(tile, { row, amount, change }, share) {
    const anchor = tile.firstChild;
    const [name, value, delta] = anchor.children;
    const { key } = row;
    setText(name, key || "(the empty key)");
    setAttribute(anchor, "href",
      link({ store: this.choice.store, key, aggregate: this.aggregate?.name }));
    setText(value, amount === null ? "–" : shortNumber(amount));
    const sign = change > 0 ? "▲" : "▼";
    setText(delta, change === 0 ? "" : `${sign} ${shortNumber(Math.abs(change))}`);
    setAttribute(anchor, "data-strength",
      amount === null ? 0 : Math.round(share * (STRENGTHS - 1)));
    anchor.facts = this.facts(row, amount);
    setAttribute(anchor, "class", row.final === false ? "open" : null);
  }

  facts(row, amount) {
    const shown = amount === null ? "no value" : withUnit(number(amount), unitOf(this.aggregate));
    return row.window_start_ms === undefined ? `${shown}; newest record ${time(row.timestamp_ms)}`
      : `${shown}; ${span(row.window_start_ms, row.window_end_ms)}, `
        + (row.final ? "final" : "open");
  }
}

function makeTile() {
  return element("li", {}, element("a", {}, element("span", { class: "name" }),
    element("span", { class: "amount" }), element("span", { class: "change" })));
}

const byKey = (a, b) => a.row.key < b.row.key ? -1 : 1;
const ORDERS = {
  value: (a, b) => (b.amount ?? -Infinity) - (a.amount ?? -Infinity) || byKey(a, b),
  change: (a, b) => Math.abs(b.change) - Math.abs(a.change) || byKey(a, b),
  key: byKey,
};
