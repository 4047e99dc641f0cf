/* How windows overlap: one bar per window, from its start to its end, the newest at the bottom. */

import { element, reconcile, setAttribute, setText, svgElement } from "../base/dom.js";
import { time } from "../base/formats.js";
import { idOf } from "../base/windows.js";

const BARS = 16;
const BAR_HEIGHT = 10;
const STEP = 15;
const WIDTH = 1000;

export class Timeline {
  /* onPick(row) receives the window under the pointer, or null. */
  constructor(onPick) {
    this.bars = svgElement("g");
    this.drawing = svgElement("svg", {
      preserveAspectRatio: "none", "aria-hidden": "true", class: "bars",
    }, this.bars);
    this.ends = [element("span"), element("span")];
    this.node = element("div", { class: "timeline" }, this.drawing,
      element("div", { class: "ends" }, ...this.ends));
    this.bars.addEventListener("pointerover", (event) => onPick(event.target.row ?? null));
    this.drawing.addEventListener("pointerleave", () => onPick(null));
  }

  /* Shows the windows up to the marked one, or the newest. rows are oldest first. */
  show(rows, picked) {
    const at = picked === null ? rows.length : Math.max(rows.indexOf(picked) + 1, BARS);
    const shown = rows.slice(Math.max(0, at - BARS), at);
    if (shown.length === 0) return;
    const first = Math.min(...shown.map((row) => row.window_start_ms));
    const last = Math.max(...shown.map((row) => row.window_end_ms));
    const scale = WIDTH / (last - first || 1);
    setAttribute(this.drawing, "viewBox", `0 0 ${WIDTH} ${shown.length * STEP}`);
    setAttribute(this.drawing, "height", shown.length * STEP);
    reconcile(this.bars, shown, idOf, () => svgElement("rect"), (bar, row, number) => {
      bar.row = row;
      const isPicked = picked !== null && idOf(picked) === idOf(row);
      setAttribute(bar, "class", `${row.final ? "final" : "open"}${isPicked ? " picked" : ""}`);
      setAttribute(bar, "x", (row.window_start_ms - first) * scale);
      setAttribute(bar, "width", Math.max(3, (row.window_end_ms - row.window_start_ms) * scale));
      setAttribute(bar, "y", number * STEP + 2);
      setAttribute(bar, "height", BAR_HEIGHT);
    });
    setText(this.ends[0], time(first));
    setText(this.ends[1], time(last));
  }
}
