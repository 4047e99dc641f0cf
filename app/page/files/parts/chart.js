/* The chart of keys and aggregates over time, drawn by uPlot (a global of its own script).

   Final windows are a full line, open ones a dashed line. Where windows are missing, the line
   breaks. Sessions are bars from their start to their end. If a pixel has several windows, the
   line is their mean in a band from the least to the greatest value. */

import { element, setAttribute } from "../base/dom.js";
import { shortNumber, time } from "../base/formats.js";
import { endOf, instantOf } from "../base/range.js";
import { isCondensed, meanColumns, pointColumns } from "./columns.js";

const { uPlot } = window;
const HEIGHT = 280;
const SPAN_MIN_MS = 1000;
/* Colors in the style sheet: --line-0 and so on. */
export const COLORS = 6;
/* Steps of an axis of integers. */
const WHOLE_STEPS = Array.from({ length: 18 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power))
  .flat();
/* The final line, the open line, the least and the greatest value of each series. */
const PER_SERIES = 4;

const LINE = uPlot.paths.linear();
const STEPS = uPlot.paths.stepped({ align: 1 });

export class Chart {
  /* onPick(ms) receives the time under the pointer, or null. onStep(step) receives a move of the
     keyboard's cursor. onZoom(fromMs, toMs) receives a range that was drawn with the pointer. */
  constructor({ onPick, onStep, onZoom }) {
    Object.assign(this, { onPick, onZoom });
    this.node = element("div", { class: "chart" });
    this.plot = null;
    this.madeFor = "";
    this.node.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity,
        End: Infinity }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      onStep(step);
    });
    new ResizeObserver(() => this.fit()).observe(this.node);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.madeFor = "";
      if (this.shown) this.show(this.shown);
    });
  }

  /* shown: { series, earlier, window, threshold, isFitted, isLocal, fromMs, toMs }.

     A series is { rows, aggregate, format, color }, rows oldest first. `earlier` are series of an
     earlier time with `shiftMs`. fromMs and toMs are the ends of the axis, null: those of the
     windows. */
  show(shown) {
    this.shown = shown;
    const { series, earlier, window } = shown;
    const width = this.node.clientWidth || 600;
    const all = [...series, ...earlier];
    const drawn = all.map(({ rows, aggregate, shiftMs = 0 }) => {
      const name = aggregate.name;
      return isCondensed(rows, width, window.kind) ? meanColumns(rows, name, window, width, shiftMs)
        : pointColumns(rows, name, window, shiftMs);
    });
    this.isCondensed = all.some(({ rows }) => isCondensed(rows, width, window.kind));
    const madeFor = JSON.stringify([this.isCondensed, window, shown.isLocal, shown.isFitted,
      shown.threshold, all.map(({ aggregate, format, color }) => [aggregate, format, color]),
      earlier.length]);
    if (madeFor !== this.madeFor) this.make(all);
    this.madeFor = madeFor;
    const nulls = drawn.map((columns) => columns.map(() => 1));
    const data = drawn.length === 1 ? drawn[0] : uPlot.join(drawn, nulls);
    data.slice(1).forEach(widenGaps);
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", this.extent());
    });
    const [{ rows }] = series;
    setAttribute(this.node, "aria-valuemax", Math.max(0, rows.length - 1));
    setAttribute(this.node, "data-windows",
      series.filter(({ aggregate }) => aggregate === series[0].aggregate)
        .reduce((count, each) => count + each.rows.length, 0));
    Object.assign(this.node, { plot: this.plot, series });
  }

  /* Marks a window of the first series; null: none. `text` describes the window, or the newest
     one, to a screen reader. */
  mark(row, text) {
    const { rows } = this.shown.series[0];
    setAttribute(this.node, "aria-valuetext", text);
    setAttribute(this.node, "aria-valuenow", row === null ? Math.max(0, rows.length - 1)
      : rows.indexOf(row));
    if (row === null) this.plot.setCursor({ left: -10, top: -10 });
    else {
      const left = this.plot.valToPos(instantOf(row, this.shown.window) / 1000, "x");
      this.plot.setCursor({ left, top: 10 });
    }
  }

  make(all) {
    this.plot?.destroy();
    const { window, isLocal, isFitted, threshold } = this.shown;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const isPhone = matchMedia("(max-width: 720px)").matches;
    const axis = {
      stroke: color("--soft"), font: "12px system-ui, sans-serif",
      grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false },
    };
    // Aggregates of one unit share an axis. The first unit is on the left, the second on the right.
    const units = [...new Set(all.map(({ format }) => format.unit))];
    const axisOf = (unit) => {
      const those = all.filter(({ format }) => format.unit === unit);
      const names = [...new Set(those.map(({ aggregate }) => aggregate.name))].join(", ");
      const isWhole = those.every(({ aggregate }) => /^(byte|short|integer|long)/
        .test(aggregate.type)) && !this.isCondensed;
      const isFirst = unit === units[0];
      return { ...axis, scale: `y ${unit}`, side: isFirst ? 3 : 1, grid: { ...axis.grid, show: isFirst },
        values: (plot, splits) => splits.map(shortNumber), size: isPhone ? 44 : 60,
        incrs: isWhole ? WHOLE_STEPS : undefined, labelFont: axis.font, labelSize: 22,
        label: isPhone ? undefined : unit ? `${names}, ${unit}` : names };
    };
    const scales = units.map((unit) => [`y ${unit}`, { range: (plot, low, high) =>
      around(low, high, isFitted, unit === units[0] ? threshold : null) }]);
    this.plot = new uPlot({
      width: this.node.clientWidth || 600,
      height: HEIGHT,
      tzDate: (seconds) => isLocal ? new Date(seconds * 1000)
        : uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      legend: { show: false },
      cursor: { y: false, points: { size: 9 }, drag: { x: true, y: false, setScale: false } },
      select: { over: true },
      scales: { x: { time: true, auto: false }, ...Object.fromEntries(scales) },
      axes: [
        { ...axis, values: (plot, splits) => timeLabels(splits), space: isPhone ? 80 : 110 },
        ...units.slice(0, 2).map(axisOf),
      ],
      series: [{}, ...all.flatMap((each) => this.seriesOf(each, window, color))],
      bands: this.isCondensed ? all.map((each, at) => ({
        series: [PER_SERIES * at + 4, PER_SERIES * at + 3], fill: `${color(each.color)}33`,
      })) : [],
      hooks: {
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          const [fromMs, toMs] = [left, left + width].map((at) => plot.posToVal(at, "x") * 1000);
          plot.setSelect({ left: 0, width: 0 }, false);
          if (toMs - fromMs >= SPAN_MIN_MS) this.onZoom(Math.floor(fromMs), Math.ceil(toMs));
        }],
        draw: [(plot) => this.drawThreshold(plot, `y ${units[0]}`, color("--bad"))],
      },
    }, [[], ...all.flatMap(() => [[], [], [], []])], this.node);
    // uPlot also calls its own hook of the cursor for new data, which would change what is marked.
    this.plot.over.addEventListener("mousemove",
      (event) => this.onPick(this.plot.posToVal(event.offsetX, "x") * 1000));
    this.plot.over.addEventListener("mouseleave", () => this.onPick(null));
    const names = [...new Set(all.map(({ aggregate }) => aggregate.name))].join(", ");
    for (const [name, content] of Object.entries({
      role: "slider", tabindex: 0, "aria-label": `${names} over time`, "aria-valuemin": 0,
      "aria-valuenow": 0,
    })) this.node.setAttribute(name, content);
  }

  seriesOf(each, window, color) {
    const stroke = color(each.color);
    const isSession = window.kind === "session";
    const isSteps = window.kind === "tumbling" && !this.isCondensed;
    const paths = isSession ? (plot, series) => this.bars(plot, series, each)
      : isSteps ? STEPS : LINE;
    const line = { scale: `y ${each.format.unit}`, stroke, width: 2, paths, spanGaps: false };
    const edge = { ...line, stroke: undefined, width: 0, points: { show: false } };
    const isSparse = (plot) => !isSession && !this.isCondensed
      && each.rows.length < plot.width / 12;
    return [
      { ...line, label: "final", fill: isSession ? `${stroke}40` : undefined,
        width: each.shiftMs ? 1.5 : 2,
        points: { show: (plot) => isSparse(plot) && !each.shiftMs, size: 5, fill: stroke } },
      { ...line, label: "open", dash: [5, 4], width: each.shiftMs ? 1.5 : 2,
        points: { show: isSparse, size: 7, fill: color("--card"),
          filter: (plot, series, isShown) => isShown ? this.starts(plot, series, each) : null } },
      edge, edge,
    ];
  }

  /* Sessions as bars over the pixels of their time, at least three wide. */
  bars(plot, series, { rows, aggregate, format, shiftMs = 0 }) {
    const path = new Path2D();
    const isFinal = plot.series[series].label === "final";
    const scale = `y ${format.unit}`;
    const ground = plot.valToPos(Math.max(0, plot.scales[scale].min), scale, true);
    for (const row of rows) {
      if (row.final !== isFinal || row[aggregate.name] === null) continue;
      const left = plot.valToPos((row.window_start_ms + shiftMs) / 1000, "x", true);
      const right = plot.valToPos((row.window_end_ms + shiftMs) / 1000, "x", true);
      const top = plot.valToPos(Number(row[aggregate.name]), scale, true);
      path.rect(left, Math.min(top, ground), Math.max(3, right - left), Math.abs(ground - top));
    }
    return { stroke: path, fill: path, clip: null, band: null, gaps: null, flags: 0 };
  }

  /* The indexes at which a window of a series starts: the end of a step has no point. */
  starts(plot, series, { rows, shiftMs = 0 }) {
    const starts = new Set(rows.map((row) => (instantOf(row, this.shown.window) + shiftMs) / 1000));
    return plot.data[series].flatMap((amount, at) =>
      (amount !== null && amount !== undefined && starts.has(plot.data[0][at]) ? [at] : []));
  }

  drawThreshold(plot, scale, stroke) {
    const { threshold } = this.shown;
    if (threshold === null) return;
    const y = plot.valToPos(threshold, scale, true);
    const { left, width } = plot.bbox;
    Object.assign(plot.ctx, { strokeStyle: stroke, lineWidth: devicePixelRatio });
    plot.ctx.setLineDash([6, 4]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(left, y);
    plot.ctx.lineTo(left + width, y);
    plot.ctx.stroke();
    plot.ctx.setLineDash([]);
  }

  /* The ends of the axis in seconds, with a little room. */
  extent() {
    const { series, window, fromMs, toMs } = this.shown;
    const rows = series.map((each) => each.rows).filter((each) => each.length > 0);
    const first = Math.min(...rows.map((each) => instantOf(each[0], window)));
    const last = Math.max(...rows.map((each) => endOf(each.at(-1), window)));
    // A session of the range can start before it.
    const from = window.kind === "session" ? Math.min(fromMs ?? Infinity, first) : fromMs;
    const [min, max] = [from ?? (rows.length ? first : 0), toMs ?? (rows.length ? last : 1)];
    const room = Math.max(500, (max - min) * 0.01);
    return { min: (min - room) / 1000, max: (max + room) / 1000 };
  }

  fit() {
    if (!this.plot || this.node.clientWidth === 0) return;
    this.plot.setSize({ width: this.node.clientWidth, height: HEIGHT });
  }
}

/* Makes a gap as wide as the distance between the two values around it. uPlot breaks a line only
   up to the next time, which can belong to another series. */
function widenGaps(values) {
  let [from, isGap] = [0, false];
  for (let at = 0; at <= values.length; at += 1) {
    if (values[at] === null) isGap = true;
    if (at < values.length && (values[at] === null || values[at] === undefined)) continue;
    if (isGap) values.fill(null, from, at);
    [from, isGap] = [at + 1, false];
  }
}

/* The ends of a value axis. It contains zero, unless it is fitted to the values. */
function around(low, high, isFitted, threshold) {
  const known = [low, high, threshold].filter((each) => each !== null && Number.isFinite(each));
  if (known.length === 0) return [0, 1];
  if (!isFitted) known.push(0);
  const [least, greatest] = [Math.min(...known), Math.max(...known)];
  const room = (greatest - least) * 0.08 || Math.abs(greatest) * 0.1 || 1;
  return [least === 0 ? 0 : least - room, greatest === 0 && least < 0 ? 0 : greatest + room];
}

/* Times of the axis. A date is shown where a day begins, seconds only if they differ. */
function timeLabels(splits) {
  const texts = splits.map((seconds) => time(Math.round(seconds * 1000)));
  const isDays = texts.every((text) => text.slice(11) === "00:00:00");
  const hasSeconds = texts.some((text) => text.slice(17, 19) !== "00");
  return texts.map((text, number) => {
    const day = text.slice(0, 10);
    if (isDays) return day;
    const clock = hasSeconds ? text.slice(11) : text.slice(11, 16);
    return number === 0 || day !== texts[number - 1].slice(0, 10) ? `${clock}\n${day}` : clock;
  });
}
