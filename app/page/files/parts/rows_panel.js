/* A store without windows: the row of a key, and the rows of all keys with a prefix. */

import { go } from "../base/address.js";
import { definitions, element, setText } from "../base/dom.js";
import { amount, clock, formatOf, time, zoneName } from "../base/formats.js";
import { REQUEST_ROWS } from "../base/range.js";
import { get, pathOf, placeOf } from "../base/service.js";
import { Share } from "./share.js";
import { Table } from "./table.js";
import { valueColumns } from "./windows_panel.js";

const PAGE_ROWS = 100;

export class RowsPanel {
  constructor(page) {
    this.page = page;
    this.controls = [];
    this.note = element("p", { class: "note empty" });
    this.caption = element("h2");
    this.values = element("dl", { class: "values" });
    this.since = element("p", { class: "note" });
    this.prefix = element("input", { id: "prefix", type: "search", autocomplete: "off" });
    this.prefix.addEventListener("input", () => this.readRows().catch((e) => page.showProblem(e)));
    this.table = new Table("Rows", () => this.more(), (row) => go({ keys: [row.key] }));
    this.share = new Share((error) => page.showProblem(error));
    this.row = element("section", { class: "card", "aria-label": "Row" }, this.caption, this.values,
      this.since);
    this.node = element("div", { class: "panel" }, this.note, this.row,
      element("section", { class: "card", "aria-label": "Rows" },
        element("label", { class: "narrow" }, "Keys with this prefix", this.prefix),
        this.table.node, this.share.node));
  }

  async show(choice, detail) {
    Object.assign(this, { choice, detail });
    const [key] = choice.keys;
    await this.readRows().catch((error) => {
      if (error.code !== "forbidden" || this.prefix.value === key) throw error;
      // A token with a key prefix can't list all keys.
      this.prefix.value = key;
      return this.readRows();
    });
    // Among the keys with this prefix, the key itself is the first.
    const { rows } = await get(this.path(key, 1, null));
    this.newest = rows.length > 0 && rows[0].key === key ? rows[0] : null;
    this.draw();
  }

  get watched() {
    return { after: this.after };
  }

  /* Any listed row can have changed, so the first page is read again. */
  async apply() {
    await this.show(this.choice, this.detail);
  }

  async readRows() {
    const prefix = this.prefix.value;
    const page = await get(this.path(prefix, PAGE_ROWS, null));
    if (prefix !== this.prefix.value) return;
    const isLonger = this.rows !== undefined && this.listed === prefix
      && this.rows.length > page.rows.length;
    // The pages after the first one stay.
    const rest = isLonger ? this.rows.slice(page.rows.length) : [];
    this.rows = [...page.rows, ...rest];
    if (!isLonger) this.cursor = page.next_cursor;
    this.listed = prefix;
    this.after = placeOf(page.position);
    this.drawTable();
  }

  async more() {
    const { cursor } = this;
    if (cursor === null || this.isLoading) return;
    this.isLoading = true;
    try {
      const page = await get(this.path(this.listed, PAGE_ROWS, cursor));
      if (cursor !== this.cursor) return;
      this.rows = [...this.rows, ...page.rows];
      this.cursor = page.next_cursor;
      this.drawTable();
    } catch (error) {
      this.page.showProblem(error);
    } finally {
      this.isLoading = false;
    }
  }

  path(prefix, limit, cursor) {
    return pathOf("prefixScan", { store: this.choice.store }, { prefix, limit, cursor });
  }

  draw() {
    const { choice, newest } = this;
    const [key] = choice.keys;
    this.note.hidden = newest !== null;
    this.row.hidden = newest === null;
    setText(this.note, `The key “${key}” has no row. Search for another key.`);
    if (newest === null) return;
    setText(this.caption, `Row of ${key || "the empty key"}`);
    setText(this.since, `Newest record ${time(newest.timestamp_ms)} ${zoneName()}`);
    definitions(this.values, this.detail.definition.aggregates.map((aggregate) =>
      [aggregate.name, amount(newest[aggregate.name], formatOf(aggregate, choice.formats))]));
  }

  drawTable() {
    const columns = [
      { name: "key", title: "key", kind: "key", cell: (row) => row.key },
      ...valueColumns(this.detail.definition),
      { name: "timestamp_ms", title: `newest record (${zoneName()})`, kind: "time",
        cell: (row) => clock(row.timestamp_ms) },
    ];
    this.table.show(columns, this.rows, {
      keyOf: (row) => row.key, isWhole: this.cursor === null,
      isPicked: (row) => row.key === this.choice.keys[0],
    });
    this.share.show([this.path(this.listed, REQUEST_ROWS, null)], [this.choice.store]);
  }
}
