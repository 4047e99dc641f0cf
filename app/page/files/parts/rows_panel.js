/* A store without windows: the row of a key, and the rows of all keys that begin as it does. */

import { go } from "../base/address.js";
import { element, reconcile, setText } from "../base/dom.js";
import {
  brief, clock, isNumber, time, unitOf, value, withUnit, zoneName,
} from "../base/formats.js";
import { get, pathOf } from "../base/service.js";
import { Share } from "./share.js";
import { Table } from "./table.js";
import { valueColumns } from "./windows_panel.js";

const PAGE_ROWS = 100;
const FILE_ROWS = 10000;

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
    this.table = new Table("Rows", () => this.more(), (row) => go({ key: row.key }));
    this.share = new Share((error) => page.showProblem(error));
    this.row = element("section", { class: "card", "aria-label": "Row" }, this.caption, this.values,
      this.since);
    this.node = element("div", { class: "panel" }, this.note, this.row,
      element("section", { class: "card", "aria-label": "Rows" },
        element("label", { class: "narrow" }, "Rows of keys that begin with", this.prefix),
        this.table.node, this.share.node));
  }

  async show(choice, detail) {
    Object.assign(this, { choice, detail });
    await this.readRows().catch((error) => {
      if (error.code !== "forbidden" || this.prefix.value === choice.key) throw error;
      // A token for some keys does not list all of them.
      this.prefix.value = choice.key;
      return this.readRows();
    });
    // The key itself comes first among those that begin with it.
    const { rows } = await get(this.path(choice.key, 1, null));
    this.newest = rows.length > 0 && rows[0].key === choice.key ? rows[0] : null;
    this.draw();
  }

  /* A change may be of any row that is listed, so they are read again from the top. */
  async apply(events, detail) {
    await this.show(this.choice, detail);
  }

  async readRows() {
    const prefix = this.prefix.value;
    const page = await get(this.path(prefix, PAGE_ROWS, null));
    if (prefix !== this.prefix.value) return;
    const isLonger = this.rows !== undefined && this.listed === prefix
      && this.rows.length > page.rows.length;
    // Pages that were read before stay behind the first one.
    const rest = isLonger ? this.rows.slice(page.rows.length) : [];
    this.rows = [...page.rows, ...rest];
    if (!isLonger) this.cursor = page.next_cursor;
    this.listed = prefix;
    this.version = page.position.version;
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
    this.note.hidden = newest !== null;
    this.row.hidden = newest === null;
    setText(this.note, `The key “${choice.key}” has no row here. Search for another one.`);
    if (newest === null) return;
    setText(this.caption, `Row of ${choice.key || "the empty key"}`);
    const values = this.detail.definition.aggregates.map((aggregate) => {
      const content = newest[aggregate.name];
      const text = isNumber(content) ? brief(content) : value(content);
      return [aggregate.name, withUnit(text, unitOf(aggregate))];
    });
    setText(this.since, `Newest record ${time(newest.timestamp_ms)} ${zoneName()}`);
    reconcile(this.values, values, ([name]) => name,
      () => element("div", {}, element("dt"), element("dd")), (pair, [name, text]) => {
        setText(pair.firstChild, name);
        setText(pair.lastChild, text);
      });
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
      isPicked: (row) => row.key === this.choice.key,
    });
    this.share.show(this.path(this.listed, FILE_ROWS, null), this.choice.store);
  }
}
