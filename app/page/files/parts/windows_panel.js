/* The windows or sessions of a key: the current one, the chart, how they overlap, all of them. */

import { go } from "../base/address.js";
import { element, setText } from "../base/dom.js";
import {
  brief, clock, duration, span, time, unitOf, value, withUnit, zoneName,
} from "../base/formats.js";
import { parse, pathOf } from "../base/service.js";
import { currentOf, History, idOf, nounOf, numericAggregates } from "../base/windows.js";
import { Chart } from "./chart.js";
import { capital } from "./facts.js";
import { select } from "./select.js";
import { Share } from "./share.js";
import { Table } from "./table.js";
import { Timeline } from "./timeline.js";

const RANGES = [
  ["newest-100", "newest 100"], ["newest-1000", "newest 1,000"],
  ["last-3600000", "last hour"], ["last-21600000", "last 6 hours"], ["last-86400000", "last day"],
  ["last-604800000", "last 7 days"], ["last-2592000000", "last 30 days"], ["all", "all"],
];
const DEFAULT_RANGE = "newest-100";
/* More windows than this are not drawn in one chart. */
const DRAWN_MAX = 200000;
const TABLE_ROWS = 100;
const FILE_ROWS = 10000;
const narrow = matchMedia("(max-width: 720px)");

export class WindowsPanel {
  constructor(page) {
    this.page = page;
    this.picked = null;
    this.aggregates = select("aggregate", "Aggregate", (name) => go({ aggregate: name }));
    this.ranges = select("range", "Range",
      (range) => go({ range, from: null, to: null }));
    this.controls = [this.aggregates.label, this.ranges.label];
    this.figure = element("p", { class: "figure" });
    this.figureOf = element("p", { class: "note" });
    this.readout = element("output", { class: "readout", "aria-live": "polite" });
    this.note = element("p", { class: "note empty" });
    this.chart = new Chart((row) => this.pick(row), (from, to) => go({ from, to, range: null }));
    this.timeline = new Timeline((row) => this.pick(row));
    this.overlap = element("details", { class: "card", open: "" },
      element("summary", {}, "How these windows overlap"), this.timeline.node);
    this.table = new Table("Windows", () => this.more(), (row) => this.pick(row));
    this.share = new Share((error) => page.showProblem(error));
    this.caption = element("h2");
    this.chartCard = element("section", { class: "card", "aria-label": "Chart" },
      element("div", { class: "now" },
        element("div", {}, this.figure, this.figureOf), this.readout),
      this.chart.node, legend());
    this.node = element("div", { class: "panel" }, this.note, this.chartCard, this.overlap,
      element("section", { class: "card", "aria-label": "Windows" }, this.caption, this.table.node,
        this.share.node));
  }

  /* Reads what a choice shows. */
  async show(choice, detail) {
    const toMs = choice.to === undefined ? null : Number(choice.to);
    const isSame = this.history?.place.store === choice.store
      && this.history.place.key === choice.key && this.history.toMs === toMs && !this.isStale;
    Object.assign(this, { choice, detail });
    const history = isSame ? this.history : new History(choice.store, choice.key, toMs);
    await this.reach(history);
    this.history = history;
    this.isStale = false;
    await this.readNewest();
    this.draw();
  }

  get version() {
    return this.history.version;
  }

  /* Takes events in their order; where one is no change of windows, all is read anew. */
  async apply(events, detail) {
    this.detail = detail;
    if (events.some((event) => event.name !== "change")) {
      this.isStale = true;
      await this.show(this.choice, detail);
      return;
    }
    for (const event of events) await this.history.apply(parse(event.data));
    await this.readNewest();
    this.draw();
  }

  async readNewest() {
    const { store, key } = this.choice;
    this.newest = this.history.rows.length > 0 ? await currentOf(store, key) : null;
  }

  /* Reads so many windows as the range needs. */
  async reach(history) {
    const { choice } = this;
    const progress = (count) => setText(this.readout, `reading, ${value(count)} windows so far`);
    const [name, amount] = (choice.range ?? DEFAULT_RANGE).split("-");
    if (choice.from !== undefined) await history.reach(Number(choice.from), DRAWN_MAX, progress);
    else if (name === "newest") await history.reach(-Infinity, Number(amount), progress);
    else {
      await history.reach(Infinity, 1);
      const lastMs = history.rows[0]?.window_end_ms ?? 0;
      const fromMs = name === "all" ? -Infinity : lastMs - Number(amount);
      await history.reach(fromMs, DRAWN_MAX, progress);
    }
  }

  /* The windows in the range, oldest first. */
  inRange() {
    const { rows } = this.history;
    const [name, amount] = (this.choice.range ?? DEFAULT_RANGE).split("-");
    let count = rows.length;
    if (this.choice.from !== undefined) count = countFrom(rows, Number(this.choice.from));
    else if (name === "newest") count = Number(amount);
    else if (name === "last" && rows.length) {
      count = countFrom(rows, rows[0].window_end_ms - Number(amount));
    }
    return rows.slice(0, Math.min(count, DRAWN_MAX)).reverse();
  }

  draw() {
    const { choice, detail, history } = this;
    const { definition } = detail;
    const kind = definition.window.kind;
    const numeric = numericAggregates(definition);
    this.aggregate = numeric.find((each) => each.name === choice.aggregate) ?? numeric[0] ?? null;
    this.aggregates.show(numeric.map((each) => [each.name, each.name]), this.aggregate?.name);
    const isSpan = choice.from !== undefined;
    const ranges = isSpan ? [["", span(choice.from, choice.to)], ...RANGES] : RANGES;
    this.ranges.show(ranges, isSpan ? "" : choice.range ?? DEFAULT_RANGE);
    const shown = this.inRange();
    this.shown = shown;
    const isEmpty = history.rows.length === 0;
    this.note.hidden = !isEmpty;
    setText(this.note,
      `The key “${choice.key}” has no ${nounOf(kind)} here. Search for another one.`);
    this.chartCard.hidden = isEmpty || this.aggregate === null;
    this.overlap.hidden = isEmpty || !["hopping", "sliding"].includes(kind);
    this.keepPicked();
    this.drawFigure(kind);
    if (!this.chartCard.hidden) {
      this.chart.show({
        rows: shown, window: definition.window, aggregate: this.aggregate,
        unit: unitOf(this.aggregate), isLocal: zoneName() !== "UTC",
        fromMs: isSpan ? Number(choice.from) : null, toMs: isSpan ? Number(choice.to) : null,
      });
    }
    this.drawTable(kind);
    this.drawPicked();
    this.share.show(pathOf("backwardFetch", { store: choice.store, key: choice.key },
      { limit: FILE_ROWS, from_ms: choice.from, to_ms: choice.to }),
    `${choice.store}-${choice.key}`);
  }

  drawFigure(kind) {
    const { newest, aggregate } = this;
    if (newest === null || aggregate === null) return;
    const amount = newest[aggregate.name];
    setText(this.figure, withUnit(amount === null ? "–" : brief(amount), unitOf(aggregate)));
    const state = newest.final ? "final" : "still open";
    setText(this.figureOf, `${aggregate.function} in the current ${nounOf(kind, 1)}, `
      + `${span(newest.window_start_ms, newest.window_end_ms)} ${zoneName()}, ${state}`);
  }

  drawTable(kind) {
    const { history, choice } = this;
    const noun = nounOf(kind);
    const count = value(history.rows.length);
    setText(this.caption, history.rows.length === 0 ? capital(noun)
      : `${capital(noun)} of ${choice.key || "the empty key"}: newest ${count}`
        + `${history.isWhole ? ", which are all" : ""}`);
    this.table.node.parentElement.hidden = history.rows.length === 0;
    this.table.show(tableColumns(this.detail.definition, noun.slice(0, -1)), history.rows, {
      keyOf: idOf, isWhole: history.isWhole,
      isPicked: (row) => this.picked !== null && idOf(row) === idOf(this.picked),
    });
  }

  /* The table is near its end. */
  async more() {
    try {
      await this.history.more(TABLE_ROWS);
      this.drawTable(this.detail.definition.window.kind);
    } catch (error) {
      this.page.showProblem(error);
    }
  }

  /* Chart, timeline and table show the same window; it is the same row after an update. */
  pick(row) {
    this.picked = row;
    this.drawPicked();
    this.table.draw();
  }

  keepPicked() {
    if (this.picked === null) return;
    const at = this.history.indexOf(this.picked);
    const row = this.history.rows[at];
    this.picked = row !== undefined && idOf(row) === idOf(this.picked) ? row : null;
  }

  drawPicked() {
    const row = this.picked ?? this.shown.at(-1) ?? null;
    if (row === null) return;
    const text = this.facts(row);
    setText(this.readout, this.picked === null ? "" : text);
    this.chart.pick(this.picked);
    this.chart.describe(text);
    if (!this.overlap.hidden) this.timeline.show(this.shown, this.picked);
  }

  /* All that is known of a window, in one line. */
  facts(row) {
    const { name } = this.aggregate ?? {};
    const lengthMs = row.window_end_ms - row.window_start_ms;
    return [
      name === undefined ? null : `${name} ${withUnit(value(row[name]), unitOf(this.aggregate))}`,
      `${span(row.window_start_ms, row.window_end_ms)} (${duration(lengthMs)})`,
      row.final ? "final" : "open",
      `newest record ${time(row.timestamp_ms)}`,
    ].filter((part) => part !== null).join(" · ");
  }
}

/* How many rows, newest first, begin at a time or later. */
function countFrom(rows, fromMs) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].window_start_ms >= fromMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

function tableColumns(definition, noun) {
  // On a phone values need the room of the year.
  const cut = narrow.matches ? "2026-".length : 0;
  const when = (name, title, text) => ({ name, title: `${title} (${zoneName()})`, kind: "time",
    cell: (row) => text(row[name]).slice(cut) });
  return [
    when("window_start_ms", narrow.matches ? "start" : `${noun} start`, time),
    { name: "final", title: "state", kind: "state", cell: (row) => row.final ? "final" : "open",
      state: (row) => row.final ? "final" : "open" },
    ...valueColumns(definition),
    when("window_end_ms", `${noun} end`, time),
    when("timestamp_ms", "newest record", clock),
  ];
}

/* One column per aggregate. */
export function valueColumns(definition) {
  return definition.aggregates.map(({ name, type }) => ({
    name, title: name, cell: (row) => value(row[name]),
    kind: /^(string|array|boolean)/.test(type) ? "text" : "number",
  }));
}

function legend() {
  return element("p", { class: "legend", "aria-hidden": "true" },
    element("span", { class: "final" }, "final"), element("span", { class: "open" }, "still open"),
    element("span", { class: "hint" },
      "Drag to choose a span; arrow keys go from window to window."));
}
