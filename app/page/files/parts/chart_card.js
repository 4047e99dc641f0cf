/* A chart with the value of the current window above it and its legend below it. Stores and boards
   show the same card. */

import { button, element, reconcile, setAttribute, setText } from "../base/dom.js";
import { amount, duration, formatOf, span, time, zoneName } from "../base/formats.js";
import { instantOf } from "../base/range.js";
import { parse } from "../base/service.js";
import { nounOf, numericAggregates, readsOf, Selection } from "../base/windows.js";
import { Chart, COLORS } from "./chart.js";
import { nearest } from "./columns.js";

/* More series would need the same color twice. */
export const SERIES_MAX = COLORS;

export class ChartCard {
  /* onZoom(fromMs, toMs) receives a drawn range. onChoose(changes) receives what the legend
     changes, undefined: the legend changes nothing. onPick(row) receives the marked window. */
  constructor({ onZoom, onChoose, onPick = () => {} }) {
    Object.assign(this, { onChoose, onPick });
    this.picked = null;
    this.figure = element("p", { class: "figure" });
    this.figureOf = element("p", { class: "note" });
    this.readout = element("output", { class: "readout", "aria-live": "polite" });
    this.note = element("p", { class: "note empty" });
    this.chart = new Chart({
      onZoom, onPick: (ms) => this.pickAt(ms), onStep: (step) => this.step(step),
    });
    this.legend = element("ul", { class: "legend series" });
    this.key = element("p", { class: "legend", "aria-hidden": "true" },
      element("span", { class: "final" }, "final"), element("span", { class: "open" }, "open"),
      element("span", { class: "mean" }, "mean of several windows, from least to greatest"),
      element("span", { class: "hint" }, "Drag to zoom. Use the arrow keys to step."));
    this.drawing = element("div", {},
      element("div", { class: "now" }, element("div", {}, this.figure, this.figureOf),
        this.readout),
      this.chart.node, this.legend, this.key);
    this.node = element("div", {}, this.note, this.drawing);
  }

  /* Reads what a choice shows. The choice names the store and at least one key. `columns` limits
     the aggregates that are read, null: all. */
  async show(wanted, definition, columns = null) {
    const choice = { ...wanted, keys: wanted.keys.slice(0, SERIES_MAX) };
    this.wanted = choice;
    if (this.selection?.reads === readsOf(choice, definition, columns)) {
      this.selection.choice = choice;
      await this.selection.completeCurrents();
    } else {
      const selection = new Selection(choice, definition, columns);
      await selection.read((count) => setText(this.readout, `Reading: ${count} windows so far`));
      // Another choice was made meanwhile.
      if (this.wanted !== choice) return;
      this.selection = selection;
    }
    this.draw();
  }

  /* Takes events in their order. */
  async apply(events) {
    if (events.some((event) => event.name !== "change")) await this.selection.read();
    else for (const event of events) await this.selection.apply(parse(event.data), event.id);
    this.draw();
  }

  draw() {
    const { selection } = this;
    const { choice, definition } = selection;
    const { window } = definition;
    const numeric = numericAggregates(definition);
    const chosen = numeric.filter(({ name }) => choice.aggregates.includes(name));
    const most = Math.max(1, Math.floor(SERIES_MAX / choice.keys.length));
    this.aggregates = (chosen.length > 0 ? chosen : numeric.slice(0, 1)).slice(0, most);
    this.numeric = numeric;
    const [first] = selection.keys;
    // The windows that the keyboard and the pointer select.
    this.rows = (selection.keys.find(({ rows }) => rows.length > 0) ?? first).rows;
    const isEmpty = selection.keys.every((windows) => windows.rows.length === 0);
    this.note.hidden = !isEmpty;
    this.drawing.hidden = this.aggregates.length === 0
      || selection.keys.every((windows) => windows.current === null);
    setText(this.note, first.current === null
      ? `The key “${first.place.key}” has no ${nounOf(window.kind)}. Search for another key.`
      : `No ${nounOf(window.kind)} in this range.`);
    this.chart.node.hidden = isEmpty;
    this.keepPicked();
    if (this.drawing.hidden) return;
    this.drawFigure();
    this.drawLegend();
    if (!isEmpty) this.drawChart();
    this.drawPicked();
  }

  drawChart() {
    const { choice, definition, keys, earlier } = this.selection;
    const series = this.series().filter(({ rows }) => rows.length > 0);
    const shiftMs = Number(choice.compare ?? 0);
    const earlierSeries = earlier === null ? [] : this.aggregates.map((aggregate) => ({
      rows: earlier.rows, aggregate, format: formatOf(aggregate, choice.formats),
      color: "--soft", shiftMs,
    })).filter(({ rows }) => rows.length > 0);
    const ends = keys.map(({ bounds }) => bounds).filter((bounds) => bounds !== null);
    const fromMs = Math.min(...ends.map((bounds) => bounds.axisMs ?? -Infinity));
    const toMs = Math.max(...ends.map((bounds) => bounds.toMs ?? -Infinity));
    const isTo = choice.to !== undefined && Number.isFinite(toMs);
    this.chart.show({
      series, earlier: earlierSeries, window: definition.window,
      threshold: Number.isFinite(parseFloat(choice.threshold)) ? Number(choice.threshold) : null,
      isFitted: choice.axis === "fit", isLocal: zoneName() !== "UTC",
      fromMs: Number.isFinite(fromMs) ? fromMs : null, toMs: isTo ? toMs : null,
    });
    this.key.children[2].hidden = !this.chart.isCondensed;
  }

  /* One series for each key and aggregate. */
  series() {
    const { choice, keys } = this.selection;
    return keys.flatMap(({ rows, place }) => this.aggregates.map((aggregate) => ({
      rows, aggregate, key: place.key, format: formatOf(aggregate, choice.formats),
    }))).map((each, at) => ({ ...each, color: `--line-${at}` }));
  }

  drawFigure() {
    const { choice, definition, keys } = this.selection;
    const { current } = keys[0];
    const [aggregate] = this.aggregates;
    if (current === null) {
      setText(this.figure, "–");
      setText(this.figureOf, "");
      return;
    }
    setText(this.figure, amount(current[aggregate.name], formatOf(aggregate, choice.formats)));
    const state = current.final ? "final" : "open";
    setText(this.figureOf, `${aggregate.function} in the current `
      + `${nounOf(definition.window.kind, 1)} of ${keys[0].place.key || "the empty key"}, `
      + `${span(current.window_start_ms, current.window_end_ms)} ${zoneName()}, ${state}`);
  }

  /* The series with their colors. A key can be removed. */
  drawLegend() {
    const { choice, keys, earlier } = this.selection;
    const series = this.series();
    const items = series.map(({ key, aggregate, color }) => ({
      text: [keys.length > 1 ? key || "(the empty key)" : null, aggregate.name]
        .filter((part) => part !== null).join(" · "),
      color: color.slice("--line-".length), key,
    }));
    if (earlier) items.push({ text: `${duration(Number(choice.compare))} earlier`, color: "earlier" });
    reconcile(this.legend, items, ({ text }) => text, () => element("li", {}, element("span")),
      (item, { text, color, key }) => {
        setText(item.firstChild, text);
        setAttribute(item, "data-color", color);
        const isRemovable = this.onChoose !== undefined && keys.length > 1 && key !== undefined
          && items.findIndex((each) => each.key === key) === items.findIndex((e) => e.text === text);
        if (isRemovable && item.children.length === 1) {
          item.append(button("×", () => this.onChoose({
            keys: this.selection.choice.keys.filter((each) => each !== key),
          }), { "aria-label": `Remove ${key}` }));
        } else if (!isRemovable) item.children[1]?.remove();
      });
    this.legend.hidden = items.length < 2;
  }

  pickAt(ms) {
    const { window } = this.selection.definition;
    this.pick(ms === null ? null : nearest(this.rows, ms, window));
  }

  step(step) {
    const last = this.rows.length - 1;
    if (last < 0) return;
    const at = this.picked === null ? last : this.rows.indexOf(this.picked);
    this.pick(this.rows[Math.max(0, Math.min(last, at + step))]);
  }

  /* Marks a window, and describes it. A window of another key than the first is only described. */
  pick(row) {
    this.picked = row;
    this.drawPicked();
    this.onPick(row);
  }

  /* After an update the marked window is another object. */
  keepPicked() {
    if (this.picked === null) return;
    const { key, window_start_ms: start, window_end_ms: end } = this.picked;
    const rows = this.selection.keys.find(({ place }) => place.key === key)?.rows ?? [];
    this.picked = rows.find((row) => row.window_start_ms === start && row.window_end_ms === end)
      ?? null;
  }

  drawPicked() {
    const row = this.picked ?? this.rows.at(-1) ?? null;
    if (row === null || this.chart.node.hidden) return;
    const text = this.facts(row);
    setText(this.readout, this.picked === null ? "" : text);
    if (this.rows.length > 0) this.chart.mark(this.rows.includes(this.picked) ? row : null, text);
  }

  /* Everything about a window in one line. The values of other keys are those at the same time. */
  facts(row) {
    const { choice, definition, keys } = this.selection;
    const formats = this.aggregates.map((aggregate) => formatOf(aggregate, choice.formats));
    const valuesOf = (each) => formats.map((format) =>
      `${format.name} ${amount(each[format.name], format)}`);
    const at = row.window_start_ms;
    const others = keys.filter(({ place }) => place.key !== row.key).flatMap(({ place, rows }) => {
      const same = nearest(rows, instantOf(row, definition.window), definition.window);
      return same === null ? [] : [`${place.key}: ${valuesOf(same).join(", ")}`];
    });
    const own = valuesOf(row).join(" · ");
    return [
      keys.length > 1 ? `${row.key}: ${own}` : own, ...others,
      `${span(at, row.window_end_ms)} (${duration(row.window_end_ms - at)})`,
      row.final ? "final" : "open", `newest record ${time(row.timestamp_ms)}`,
    ].join(" · ");
  }
}
