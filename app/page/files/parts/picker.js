/* The controls of a chart: range, aggregates, and the options of times and drawing. Every choice
   is a step of the address, so that the browser's back button undoes it. */

import { go, read } from "../base/address.js";
import { button, element, reconcile, setAttribute, setText } from "../base/dom.js";
import {
  clock, DECIMALS_MAX, duration, formatOf, fromInput, inputTime, span, value, zoneName,
} from "../base/formats.js";
import { DEFAULT_RANGE, endOf, instantOf, RANGES, shiftOf } from "../base/range.js";
import { select } from "./select.js";

const COMPARED = [["", "Nothing"], ["3600000", "1 h earlier"], ["86400000", "1 day earlier"],
  ["604800000", "7 days earlier"]];

export class Picker {
  constructor() {
    this.ranges = select("range", "Range",
      (range) => go({ range, from: null, to: null }));
    this.steps = select("step", "Step", (step) => go({ step: step || null }));
    this.zoomOut = button("Zoom out", () => this.zoom(1));
    this.earlier = button("‹", () => this.move(-1), { "aria-label": "Earlier" });
    this.later = button("›", () => this.move(1), { "aria-label": "Later" });
    this.back = button("Back", () => history.back());
    this.full = button("Full range", () => go({ range: "all", from: null, to: null }));
    this.aggregates = element("div", { class: "toggles", role: "group",
      "aria-label": "Aggregates" });
    this.from = element("input", { id: "from", type: "datetime-local", step: 1 });
    this.to = element("input", { id: "to", type: "datetime-local", step: 1 });
    this.compared = select("compare", "Compare with", (compare) => go({ compare: compare || null }));
    this.threshold = element("input", { id: "threshold", type: "number", step: "any" });
    this.threshold.addEventListener("change",
      () => go({ threshold: this.threshold.value || null }));
    this.fitted = checkbox("fitted", "Fit the value axis",
      (isOn) => go({ axis: isOn ? "fit" : null }));
    this.afterCurrent = checkbox("later", "Show windows after the current one",
      (isOn) => go({ later: isOn ? "1" : null }));
    this.formats = element("div", { class: "formats" });
    const times = element("form", { class: "controls" },
      this.fromLabel = element("label", {}, element("span"), this.from),
      this.toLabel = element("label", {}, element("span"), this.to),
      element("button", { type: "submit" }, "Apply"));
    times.addEventListener("submit", (event) => {
      event.preventDefault();
      this.useTimes(fromInput(this.from.value), fromInput(this.to.value));
    });
    this.times = element("div", { class: "row ranges" }, this.earlier, this.later, this.zoomOut,
      this.back, this.full);
    this.options = element("details", { class: "options" },
      element("summary", {}, "Times, comparison, threshold, units"), times,
      element("div", { class: "controls" }, this.compared.label,
        element("label", {}, "Threshold", this.threshold), this.fitted.label,
        this.afterCurrent.label),
      this.formats);
  }

  /* Shows the choice of a card that has been drawn, and the steps of its store. */
  show(choice, card, steps) {
    const { selection, aggregates, numeric, rows } = card;
    const { window: kind } = selection.definition;
    this.shown = { choice, rows, window: kind };
    const hasTimes = choice.from !== undefined || choice.to !== undefined;
    const range = hasTimes ? "" : choice.range ?? DEFAULT_RANGE;
    const isListed = RANGES.some(([name]) => name === range);
    this.ranges.show(isListed ? RANGES : [[range, textOf(choice)], ...RANGES], range);
    this.steps.show(steps, choice.step ?? "");
    for (const moves of [this.earlier, this.later, this.zoomOut]) moves.disabled = rows.length === 0;
    // Browsers without the Navigation API do not say whether there is a view to return to.
    this.back.disabled = window.navigation?.canGoBack === false;
    this.full.disabled = !hasTimes && choice.range === "all";
    const names = new Set(aggregates.map(({ name }) => name));
    reconcile(this.aggregates, numeric, ({ name }) => name,
      ({ name }) => button(name, () => this.toggle(name)),
      (made, { name }) => setAttribute(made, "aria-pressed", String(names.has(name))));
    this.aggregates.hidden = numeric.length < 2;
    const zone = zoneName() === "UTC" ? "UTC" : "local";
    setText(this.fromLabel.firstChild, `From (${zone})`);
    setText(this.toLabel.firstChild, `To (${zone})`);
    const [fromMs, toMs] = this.ends();
    if (!this.options.contains(document.activeElement)) {
      this.from.value = fromMs === null ? "" : inputTime(fromMs);
      this.to.value = toMs === null ? "" : inputTime(toMs);
      this.threshold.value = choice.threshold ?? "";
    }
    const compared = choice.compare === undefined
      || COMPARED.some(([ms]) => ms === choice.compare) ? COMPARED
      : [...COMPARED, [choice.compare, `${duration(Number(choice.compare))} earlier`]];
    this.compared.show(compared, choice.compare ?? "");
    this.fitted.box.checked = choice.axis === "fit";
    this.afterCurrent.box.checked = choice.later !== undefined;
    this.afterCurrent.label.hidden = shiftOf(kind) === 0;
    this.drawFormats(aggregates, choice);
  }

  drawFormats(aggregates, choice) {
    reconcile(this.formats, aggregates, ({ name }) => name, ({ name }) => {
      const unit = element("input", { type: "text", "aria-label": `Unit of ${name}`, size: 8 });
      const decimals = element("select", { "aria-label": `Decimals of ${name}` },
        element("option", { value: "" }, "auto"),
        Array.from({ length: DECIMALS_MAX + 1 }, (_, count) =>
          element("option", { value: count }, `${count} decimal${count === 1 ? "" : "s"}`)));
      const row = element("div", { class: "row" }, element("span", {}, name), unit, decimals);
      row.addEventListener("change", () => {
        const { formats } = read();
        const others = formats.filter((text) => text.split(":")[0] !== name);
        go({ formats: [...others, `${name}:${decimals.value}:${unit.value.replaceAll(":", "")}`] });
      });
      return row;
    }, (row, aggregate) => {
      if (row.contains(document.activeElement)) return;
      const { unit, decimals } = formatOf(aggregate, choice.formats);
      row.children[1].value = unit;
      row.children[2].value = decimals ?? "";
    });
  }

  toggle(name) {
    const names = [...this.aggregates.children]
      .filter((each) => (each.getAttribute("aria-pressed") === "true") !== (each.textContent === name))
      .map((each) => each.textContent);
    if (names.length > 0) go({ aggregates: names });
  }

  useTimes(fromMs, toMs) {
    if (fromMs === null && toMs === null) go({ from: null, to: null });
    else if (fromMs !== null && toMs !== null && fromMs > toMs) this.useTimes(toMs, fromMs);
    else go({ from: fromMs, to: toMs, range: null });
  }

  /* The chart's ends in ms, null if nothing is shown. */
  ends() {
    const { choice, rows, window } = this.shown;
    const first = rows.length > 0 ? instantOf(rows[0], window) : null;
    const last = rows.length > 0 ? endOf(rows.at(-1), window) : null;
    const given = (text) => text === undefined ? null : Number(text);
    return [given(choice.from) ?? first, given(choice.to) ?? last];
  }

  /* Moves the range by its own length. */
  move(direction) {
    const [fromMs, toMs] = this.ends();
    const lengthMs = Math.max(1000, toMs - fromMs);
    this.useTimes(fromMs + direction * lengthMs, toMs + direction * lengthMs);
  }

  /* Widens the range by its length on both sides, as far as the current window. */
  zoom(lengths) {
    const [fromMs, toMs] = this.ends();
    const room = lengths * Math.max(1000, toMs - fromMs);
    this.useTimes(fromMs - room, toMs + room);
  }
}

function textOf({ range, from, to }) {
  const [name, amount] = (range ?? "").split("-");
  if (name === "last") return `Last ${duration(Number(amount))}`;
  if (name === "newest") return `Newest ${value(Number(amount))}`;
  if (from === undefined) return `up to ${clock(to)}`;
  return to === undefined ? `from ${clock(from)}` : span(from, to);
}

function checkbox(id, text, onChange) {
  const box = element("input", { id, type: "checkbox" });
  box.addEventListener("change", () => onChange(box.checked));
  return { box, label: element("label", { class: "check" }, box, text) };
}
