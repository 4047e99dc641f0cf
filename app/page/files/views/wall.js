/* The wall: the current window (or the row) of every key as a tile, colored by its value. Keys
   without recent records are listed separately. */

import { complete, go, link } from "../base/address.js";
import { element, reconcile, setAttribute, setText } from "../base/dom.js";
import {
  age, amount, clock, formatOf, isNumber, number, shortNumber, span, time, value, windowText,
  zoneName,
} from "../base/formats.js";
import { fits, get, parse, pathOf, placeOf } from "../base/service.js";
import { nounOf, numericAggregates } from "../base/windows.js";
import { select } from "../parts/select.js";

const TILES_MAX = 2000;
const PAGE_ROWS = 1000;
/* A change is the difference to the value a minute ago, or to the first value that the page read. */
const COMPARED_MS = 60000;
const SORTS = [["value", "value"], ["change", "change"], ["age", "age"], ["key", "key"]];
const TOPS = [["", "all keys"], ["10", "the highest 10"], ["100", "the highest 100"]];
const NOTHING = { prefix: "No keys with this prefix", where: "The condition selects no keys" };
const STRENGTHS = 8;

export class Wall {
  constructor(page) {
    this.page = page;
    this.minGapMs = 1000;
    this.title = element("h1");
    this.back = element("a", {}, "One key");
    this.kind = element("p", { class: "note" });
    this.aggregates = select("aggregate", "Aggregate", (name) => go({ aggregates: [name] }));
    this.sorts = select("sort", "Sorted by", (sort) => go({ sort }));
    this.prefix = element("input", { id: "prefix", type: "search", autocomplete: "off" });
    this.prefix.addEventListener("input", () => {
      complete({ prefix: this.prefix.value || null });
      page.load();
    });
    this.condition = element("input", { id: "where", type: "search", autocomplete: "off",
      spellcheck: "false", title: "Press Enter to apply the condition" });
    this.condition.addEventListener("change", () => go({ where: this.condition.value || null }));
    this.tops = select("top", "Show", (top) => go({ top: top || null }));
    this.note = element("p", { class: "note words" });
    this.readout = element("output", { class: "readout", "aria-live": "polite" });
    this.tiles = element("ul", { class: "tiles" });
    this.staleHead = element("h2");
    this.staleNote = element("p", { class: "note" });
    this.staleTiles = element("ul", { class: "tiles" });
    this.stale = element("section", { class: "stale", "aria-label": "Stale windows" },
      this.staleHead, this.staleNote, this.staleTiles);
    this.node = element("div", {},
      element("div", { class: "head" },
        element("div", { class: "title" }, this.title, this.kind, this.back),
        element("div", { class: "controls" },
          element("label", {}, "Keys with this prefix", this.prefix),
          element("label", {}, "Condition", this.condition),
          this.aggregates.label, this.sorts.label, this.tops.label)),
      this.note, this.readout, this.tiles, this.stale);
    // The pointer and the keyboard show the same facts.
    for (const name of ["pointerover", "focusin"]) {
      this.node.addEventListener(name, (event) => {
        const anchor = event.target.closest(".tiles a");
        if (!anchor) return;
        setText(this.readout, `${anchor.firstChild.textContent}: ${this.facts(anchor.item)}`);
      });
    }
  }

  async show(choice) {
    const { store } = choice;
    const detail = await get(pathOf("describeStore", { store }));
    const { definition } = detail;
    const numeric = numericAggregates(definition);
    const aggregate = numeric.find(({ name }) => choice.aggregates.includes(name)) ?? numeric[0];
    const shownFor = [store, aggregate?.name].join("/");
    if (shownFor !== this.shownFor) this.seen = new Map();
    Object.assign(this, { choice, definition, aggregate, shownFor });
    this.format = aggregate && formatOf(aggregate, choice.formats);
    const aggregates = aggregate ? [aggregate.name] : [];
    this.chartLink = link({ store, aggregates, formats: choice.formats });
    document.title = `All keys · ${store} · Oriel`;
    setText(this.title, store);
    setText(this.kind, windowText(definition.window));
    setAttribute(this.back, "href", link({ store, formats: choice.formats }));
    if (document.activeElement !== this.prefix) this.prefix.value = choice.prefix ?? "";
    if (document.activeElement !== this.condition) this.condition.value = choice.where ?? "";
    setAttribute(this.condition, "placeholder", aggregate ? `${aggregate.name} > 0` : null);
    this.tops.show(aggregate ? TOPS : [], choice.top ?? "");
    this.aggregates.show(numeric.map(({ name }) => [name, name]), aggregate?.name);
    this.sorts.show(SORTS, choice.sort ?? "value");
    await this.read();
    this.draw();
  }

  watched() {
    const query = { after: this.after };
    if (this.isWindowed()) Object.assign(query, { current: true, columns: this.aggregate?.name });
    return { store: this.choice.store, query };
  }

  isWindowed() {
    return fits("currentAll", this.definition.window.kind);
  }

  async apply(events) {
    const { prefix, where, top } = this.choice;
    const isComplete = this.isWindowed() && !this.hasMore && !(prefix || where || top);
    if (isComplete && events.every(({ name }) => name === "change")) {
      for (const { data, id } of events) {
        const { windows, removed } = parse(data);
        this.after = id;
        windows.forEach((row) => this.rows.set(row.key, row));
        removed.forEach((row) => this.rows.delete(row.key));
      }
    } else await this.read();
    this.draw();
  }

  async read() {
    const { choice } = this;
    const { store, prefix, where } = choice;
    // The service selects the highest keys, also of more keys than the wall can show.
    const top = this.aggregate && choice.top;
    const selected = top ? { order_by: `-${this.aggregate.name}`, top } : { limit: PAGE_ROWS };
    const isWindowed = this.isWindowed();
    const rows = [];
    let [cursor, after] = [null, null];
    do {
      const page = await get(pathOf(isWindowed ? "currentAll" : "prefixScan", { store },
        { prefix, where, ...selected, columns: this.aggregate?.name, cursor }));
      if (cursor === null) after = placeOf(page.position);
      rows.push(...(isWindowed ? page.windows : page.rows));
      cursor = page.next_cursor;
    } while (cursor !== null && rows.length < TILES_MAX);
    // Another choice was made meanwhile.
    if (choice !== this.choice) return;
    this.after = after;
    this.hasMore = cursor !== null;
    this.rows = new Map(rows.slice(0, TILES_MAX).map((row) => [row.key, row]));
  }

  draw() {
    const { kind, size_ms: sizeMs } = this.definition.window;
    const rows = [...this.rows.values()];
    const newestMs = rows.reduce((most, row) => Math.max(most, row.window_end_ms ?? 0), 0);
    // A window that ended a whole window before the newest one shares no time with it.
    const isStale = (row) => !fits("get", kind) && row.window_end_ms < newestMs - sizeMs;
    const items = rows.map((row) => {
      const content = this.aggregate === undefined ? null : row[this.aggregate.name];
      const known = isNumber(content) ? Number(content) : null;
      return { row, known, change: this.changeOf(row.key, known), isStale: isStale(row) };
    });
    const stale = items.filter((item) => item.isStale);
    const fresh = items.filter((item) => !item.isStale);
    this.sort(fresh);
    this.drawTiles(this.tiles, fresh);
    stale.sort(ORDERS.age);
    this.drawTiles(this.staleTiles, stale);
    this.stale.hidden = stale.length === 0;
    setText(this.staleHead, `${number(stale.length)} stale ${nounOf(kind, stale.length)}`);
    setText(this.staleNote, `Stale ${nounOf(kind)} ended before ${clock(newestMs - sizeMs)} ${zoneName()}, a whole `
      + `${kind === "session" ? "gap" : "window"} before the newest ${nounOf(kind, 1)} ended.`);
    const what = fits("get", kind) ? "row" : `current ${nounOf(kind, 1)}`;
    const count = this.hasMore
      ? `the first ${number(rows.length)} keys. Use a prefix or a condition to see others`
      : rows.length === 1 ? "one key" : `${number(rows.length)} keys`;
    const newest = fits("get", kind) ? "" : ` The newest ${nounOf(kind, 1)} ends at ${clock(newestMs)} `
      + `${zoneName()}.`;
    setText(this.note, rows.length === 0 ? NOTHING[this.choice.where ? "where" : "prefix"]
      : `${this.aggregate?.function ?? "Newest record"} in the ${what} of ${count}.${newest} `
        + "▲ and ▼ show the change in the last minute.");
  }

  drawTiles(list, items) {
    const amounts = items.map((item) => item.known).filter((known) => known !== null);
    const low = amounts.reduce((least, known) => Math.min(least, known), Infinity);
    const high = amounts.reduce((most, known) => Math.max(most, known), -Infinity);
    // Tiles keep their places and change their content. To move a thousand elements takes too long.
    reconcile(list, items, (_, place) => place, makeTile,
      (tile, item) => this.fill(tile, item, (item.known - low) / (high - low || 1)));
  }

  /* Sorts as chosen. While the pointer or the focus is on a tile, each key keeps its place. */
  sort(items) {
    const { sort = "value" } = this.choice;
    if (sort === this.sorted && this.tiles.matches(":hover, :focus-within")) {
      const placeOf = (item) => this.places.get(item.row.key) ?? Infinity;
      items.sort((a, b) => placeOf(a) - placeOf(b) || 0);
    } else items.sort(ORDERS[sort] ?? ORDERS.value);
    this.sorted = sort;
    this.places = new Map(items.map((item, place) => [item.row.key, place]));
  }

  /* The change of a key's value in the last minute, as far as this page has read it. */
  changeOf(key, known) {
    if (known === null) return 0;
    const now = Date.now();
    const seen = this.seen.get(key) ?? [];
    if (seen.at(-1)?.known !== known) seen.push({ known, ms: now });
    // The value of a minute ago is the last one from before that time.
    while (seen.length > 1 && seen[1].ms < now - COMPARED_MS) seen.shift();
    this.seen.set(key, seen);
    return known - seen[0].known;
  }

  fill(tile, item, share) {
    const { row, known, change, isStale } = item;
    const anchor = tile.firstChild;
    const [name, shown, delta, when] = anchor.children;
    const { key } = row;
    setText(name, key || "(the empty key)");
    setAttribute(anchor, "href", `${this.chartLink}&key=${encodeURIComponent(key)}`);
    setText(shown, known === null ? "–" : this.format.decimals === null ? shortNumber(known)
      : amount(known, this.format, false));
    const sign = change > 0 ? "▲" : "▼";
    setText(delta, change === 0 ? "" : `${sign} ${shortNumber(Math.abs(change))}`);
    const endMs = row.window_end_ms ?? row.timestamp_ms;
    // A stale window can be of another day.
    setText(when, isStale || row.window_end_ms === undefined ? clock(endMs).slice(5, 16)
      : `to ${clock(endMs).slice(11)}`);
    setAttribute(anchor, "data-strength",
      known === null || isStale ? 0 : Math.round(share * (STRENGTHS - 1)));
    anchor.item = item;
    setAttribute(anchor, "class", row.final === false ? "open" : null);
  }

  facts({ row, known }) {
    const shown = known === null ? value(null) : amount(known, this.format);
    if (row.window_start_ms === undefined) {
      return `${shown}, newest record ${time(row.timestamp_ms)} ${zoneName()}`;
    }
    return `${shown}, ${span(row.window_start_ms, row.window_end_ms)} ${zoneName()}, `
      + `${row.final ? "final" : "open"}, newest record ${time(row.timestamp_ms)}, `
      + `${age(Math.max(0, Date.now() - row.timestamp_ms))} ago`;
  }
}

function makeTile() {
  return element("li", {}, element("a", {}, element("span", { class: "name" }),
    element("span", { class: "amount" }), element("span", { class: "change" }),
    element("span", { class: "when" })));
}

const byKey = (a, b) => a.row.key < b.row.key ? -1 : 1;
const ORDERS = {
  value: (a, b) => (b.known ?? -Infinity) - (a.known ?? -Infinity) || byKey(a, b),
  change: (a, b) => Math.abs(b.change) - Math.abs(a.change) || byKey(a, b),
  age: (a, b) => b.row.timestamp_ms - a.row.timestamp_ms || byKey(a, b),
  key: byKey,
};
