/* The windows or sessions of keys: the current one, the chart, how they overlap, and the table of
   exactly the windows in the chart. */

import { go } from "../base/address.js";
import { element, setText } from "../base/dom.js";
import { amount, clock, exactNumber, formatOf, isNumber, span, time, value, zoneName }
  from "../base/formats.js";
import { DRAWN_MAX, REQUEST_ROWS, shiftOf } from "../base/range.js";
import { columnsOf, shownDefinition, stepsOf } from "../base/steps.js";
import { idOf, nounOf } from "../base/windows.js";
import { ChartCard } from "./chart_card.js";
import { Picker } from "./picker.js";
import { Share } from "./share.js";
import { Table } from "./table.js";
import { Timeline } from "./timeline.js";

const NO_VALUE = "null, NaN or infinite. JSON has no NaN or infinity. CSV and Arrow files have it.";
const narrow = matchMedia("(max-width: 720px)");

export class WindowsPanel {
  constructor(page) {
    this.page = page;
    this.picker = new Picker();
    this.controls = [this.picker.ranges.label, this.picker.steps.label, this.picker.times];
    this.card = new ChartCard({
      onZoom: (fromMs, toMs) => this.picker.useTimes(fromMs, toMs),
      onChoose: (changes) => go(changes),
      onPick: (row) => this.showPicked(row),
    });
    this.timeline = new Timeline((row) => this.card.pick(row));
    this.overlap = element("details", { class: "card" },
      element("summary", {}, "How these windows overlap"), this.timeline.node);
    this.table = new Table("Windows", () => {}, (row) => this.card.pick(row));
    this.share = new Share((error) => page.showProblem(error));
    this.caption = element("h2");
    this.said = element("p", { class: "note" });
    this.tableCard = element("section", { class: "card", "aria-label": "Windows" },
      this.caption, this.table.node, this.said, this.share.node);
    this.node = element("div", { class: "panel" },
      element("section", { class: "card", "aria-label": "Chart" }, this.picker.aggregates,
        this.card.node, this.picker.options),
      this.overlap, this.tableCard);
  }

  async show(choice, detail) {
    const definition = shownDefinition(choice, detail);
    await this.card.show(choice, definition, columnsOf(definition));
    this.steps = stepsOf(detail, choice.step);
    this.draw();
  }

  /* The stream has all aggregates, so that a new window needs no request, but long lists only if the
     chart needs them. */
  get watched() {
    const { choice, definition, after } = this.card.selection;
    const hasLists = definition.aggregates.some(({ type }) => type.startsWith("array"));
    const needed = hasLists ? this.card.aggregates : definition.aggregates;
    return { key: choice.keys, current: true, after,
      columns: needed.map(({ name }) => name).join(",") || null };
  }

  async apply(events) {
    await this.card.apply(events);
    this.draw();
  }

  draw() {
    const { selection, rows } = this.card;
    const { choice, definition } = selection;
    const { kind } = definition.window;
    this.picker.show(choice, this.card, this.steps);
    this.overlap.hidden = rows.length === 0 || shiftOf(definition.window) === 0;
    this.rows = selection.newestFirst();
    const noun = (definition.window.step_ms ? "merged " : "") + nounOf(kind, this.rows.length);
    const keys = choice.keys.map((key) => key || "the empty key").join(", ");
    const [newest, oldest] = [this.rows[0], this.rows.at(-1)];
    setText(this.caption, this.rows.length === 0 ? `No ${nounOf(kind)} of ${keys}`
      : `${value(this.rows.length)} ${noun} of ${keys}, `
        + `${span(oldest.window_start_ms, newest.window_end_ms)} ${zoneName()}`);
    this.drawSaid();
    this.table.node.hidden = this.rows.length === 0;
    this.table.show(tableColumns(definition, choice), this.rows, {
      keyOf: idOf, isWhole: true,
      isPicked: (row) => this.card.picked !== null && idOf(row) === idOf(this.card.picked),
    });
    this.showPicked(this.card.picked);
    const names = choice.keys.map((key) => `${choice.store}-${key}`);
    this.share.show(selection.keys.map((windows) => windows.request()), names);
  }

  /* What the table and the request do not contain, in words. */
  drawSaid() {
    const { keys, definition } = this.card.selection;
    const doubles = definition.aggregates.filter(({ type }) => /^(double|float)/.test(type));
    const hasNull = this.rows.some((row) => doubles.some(({ name }) => row[name] === null));
    const isOverMax = keys.some(({ isCut, rows }) => isCut
      && rows.length === this.card.selection.drawnMax && rows.length > 1000);
    setText(this.said, [
      isOverMax ? `The range has more windows. The chart shows the newest ${value(DRAWN_MAX)}.` : "",
      keys.some(({ rows }) => rows.length > REQUEST_ROWS)
        ? `The request returns ${value(REQUEST_ROWS)} windows. Send next_cursor as cursor for more.`
        : "",
      hasNull ? `– is ${NO_VALUE}` : "",
    ].filter(Boolean).join(" "));
    this.said.hidden = this.said.textContent === "";
  }

  showPicked(row) {
    this.table.draw();
    if (!this.overlap.hidden) this.timeline.show(this.card.rows, row);
  }
}

function tableColumns(definition, choice) {
  // On a phone, values need the room of the year.
  const cut = narrow.matches ? "2026-".length : 0;
  const noun = nounOf(definition.window.kind, 1);
  const when = (name, title, text) => ({ name, title: `${title} (${zoneName()})`, kind: "time",
    cell: (row) => text(row[name]).slice(cut) });
  return [
    ...(choice.keys.length > 1
      ? [{ name: "key", title: "key", kind: "key", cell: (row) => row.key }] : []),
    when("window_start_ms", narrow.matches ? "start" : `${noun} start`, time),
    { name: "final", title: "state", kind: "state", cell: (row) => row.final ? "final" : "open",
      state: (row) => row.final ? "final" : "open" },
    ...valueColumns(definition, choice.formats),
    when("window_end_ms", `${noun} end`, time),
    when("timestamp_ms", "newest record", clock),
  ];
}

/* One column per aggregate. */
export function valueColumns(definition, formats = []) {
  return definition.aggregates.map((aggregate) => {
    const { name, type } = aggregate;
    const format = formatOf(aggregate, formats);
    return { name, title: name, kind: /^(string|array|boolean)/.test(type) ? "text" : "number",
      cell: (row) => amount(row[name], format, false),
      hint: (row) => row[name] === null && /^(double|float)/.test(type) ? `This value is ${NO_VALUE}`
        : isNumber(row[name]) && !Number.isInteger(row[name]) ? exactNumber(row[name]) : null };
  });
}
