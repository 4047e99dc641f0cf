/* The chart of one aggregate over time, drawn by uPlot (a global of its own script).

   Final windows are a full line, open ones a dashed line with hollow points. Where windows are
   missing the line breaks. Sessions are bars from their start to their end. */

import { element, setAttribute } from "../base/dom.js";
import { shortNumber, time } from "../base/formats.js";
import { instantOf, isGap } from "../base/windows.js";

const { uPlot } = window;
const HEIGHT = 280;
const SPAN_MIN_MS = 1000;
/* Steps of an axis on which there are no fractions. */
const WHOLE_STEPS = Array.from({ length: 18 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power))
  .flat();

const LINE = uPlot.paths.linear();
const STEPS = uPlot.paths.stepped({ align: 1 });

/* Steps; where they would be narrower than a pixel a line, of which uPlot draws what one sees. */
function stepsOrLine(plot, series, first, last) {
  return (last - first > plot.width ? LINE : STEPS)(plot, series, first, last);
}

export class Chart {
  /* onPick(row) is told the window under the pointer or the keyboard's cursor, null for none;
     onZoom(fromMs, toMs) a span that was drawn with the pointer. */
  constructor(onPick, onZoom) {
    this.onPick = onPick;
    this.onZoom = onZoom;
    this.node = element("div", { class: "chart" });
    this.rows = [];
    this.plot = null;
    this.drawnFor = "";
    this.node.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.fit()).observe(this.node);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.drawnFor = "";
      if (this.shown) this.show(this.shown);
    });
  }

  /* shown: { rows, window, aggregate, unit, isLocal, fromMs, toMs }. Rows are oldest first; fromMs
     and toMs are the ends of the axis, null: those of the rows. */
  show(shown) {
    this.shown = shown;
    const { rows, window, aggregate, unit, isLocal, fromMs, toMs } = shown;
    this.rows = rows;
    const drawnFor = [aggregate.name, unit, window.kind, isLocal].join("/");
    if (drawnFor !== this.drawnFor) this.make(window, aggregate, unit, isLocal);
    this.drawnFor = drawnFor;
    const { data, rowOf } = columns(rows, aggregate.name, window);
    this.rowOf = rowOf;
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", extent(rows, window.kind, fromMs, toMs));
    });
    setAttribute(this.node, "aria-valuemax", Math.max(0, rows.length - 1));
    setAttribute(this.node, "data-windows", rows.length);
  }

  /* Shows which window is picked elsewhere; null: none. */
  pick(row) {
    const at = row === null ? -1 : this.rowOf?.indexOf(row) ?? -1;
    this.picked = at < 0 ? null : this.rows.indexOf(row);
    if (at < 0) this.plot?.setCursor({ left: -10, top: -10 });
    else {
      const left = this.plot.valToPos(this.plot.data[0][at], "x");
      const shownValue = this.plot.data[1][at] ?? this.plot.data[2][at];
      this.plot.setCursor({ left, top: this.plot.valToPos(shownValue ?? 0, "y") });
    }
  }

  /* What a reader of screens says of the picked window. */
  describe(text) {
    setAttribute(this.node, "aria-valuetext", text);
    setAttribute(this.node, "aria-valuenow", this.picked ?? Math.max(0, this.rows.length - 1));
  }

  make(window, aggregate, unit, isLocal) {
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const isSessions = window.kind === "session";
    const isPhone = matchMedia("(max-width: 720px)").matches;
    const paths = isSessions ? (plot, series, first, last) => this.bars(plot, series, first, last)
      : window.kind === "hopping" ? LINE : stepsOrLine;
    const axis = {
      stroke: colour("--soft"), font: "12px system-ui, sans-serif",
      grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false },
    };
    const line = { stroke: colour("--accent"), width: 2, paths, spanGaps: false };
    this.plot = new uPlot({
      width: this.node.clientWidth || 600,
      height: HEIGHT,
      tzDate: (seconds) => isLocal ? new Date(seconds * 1000)
        : uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      legend: { show: false },
      cursor: { y: false, points: { size: 9 }, drag: { x: true, y: false, setScale: false } },
      select: { over: true },
      scales: {
        x: { time: true, auto: false },
        y: { range: (_, low, high) => around(low, high, isSessions) },
      },
      axes: [
        { ...axis, values: (plot, splits) => timeLabels(splits), space: isPhone ? 80 : 110 },
        { ...axis, values: (plot, splits) => splits.map(shortNumber), size: isPhone ? 44 : 60,
          incrs: /^(byte|short|integer|long)/.test(aggregate.type) ? WHOLE_STEPS : undefined,
          label: isPhone ? undefined : unit ? `${aggregate.name}, ${unit}` : aggregate.name,
          labelFont: axis.font, labelSize: 22 },
      ],
      series: [
        {},
        { ...line, label: "final", fill: isSessions ? colour("--accent-soft") : undefined,
          points: { show: isSessions ? false : undefined, size: 5, fill: colour("--accent") } },
        { ...line, label: "open", dash: [5, 4], points: { size: 7, fill: colour("--card"),
          show: (plot, series, first, last) => !isSessions && last - first < plot.width / 4,
          filter: (plot, series, isShown) => isShown ? this.starts(plot.data[series]) : null } },
      ],
      hooks: {
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          const [fromMs, toMs] = [left, left + width].map((at) => plot.posToVal(at, "x") * 1000);
          plot.setSelect({ left: 0, width: 0 }, false);
          if (toMs - fromMs >= SPAN_MIN_MS) this.onZoom(Math.floor(fromMs), Math.ceil(toMs));
        }],
      },
    }, [[], [], []], this.node);
    // uPlot's own hook of its cursor is called for new data, too: that would change what is picked.
    this.plot.over.addEventListener("mousemove", (event) => {
      const at = this.plot.posToIdx(event.offsetX);
      this.onPick(this.rowOf[at] ?? this.rowOf[at - 1] ?? null);
    });
    this.plot.over.addEventListener("mouseleave", () => this.onPick(null));
    for (const [name, content] of Object.entries({
      role: "slider", tabindex: 0, "aria-label": `${aggregate.name} over time`, "aria-valuemin": 0,
      "aria-valuenow": 0,
    })) this.node.setAttribute(name, content);
  }

  /* Sessions as bars, over the pixels of their time and at least three wide. */
  bars(plot, series, first, last) {
    const path = new Path2D();
    const [instants, values] = [plot.data[0], plot.data[series]];
    const ground = plot.valToPos(Math.max(0, plot.scales.y.min), "y", true);
    // One that began before the axis may reach into it.
    for (let at = Math.max(0, first - 1); at <= last; at += 1) {
      const row = this.rowOf[at];
      if (row === null || values[at] === null) continue;
      const left = plot.valToPos(instants[at], "x", true);
      const right = plot.valToPos(row.window_end_ms / 1000, "x", true);
      const top = plot.valToPos(values[at], "y", true);
      path.rect(left, Math.min(top, ground), Math.max(3, right - left), Math.abs(ground - top));
    }
    return { stroke: path, fill: path, clip: null, band: null, gaps: null, flags: 0 };
  }

  /* Where windows begin that have a value: the end of a step has no point of its own. */
  starts(values) {
    return values.flatMap((amount, at) =>
      amount !== null && this.rowOf[at] !== this.rowOf[at - 1] ? [at] : []);
  }

  step(event) {
    const picked = this.picked ?? this.rows.length - 1;
    const last = this.rows.length - 1;
    const at = {
      ArrowLeft: Math.max(0, picked - 1), ArrowRight: Math.min(last, picked + 1),
      PageUp: Math.max(0, picked - 10), PageDown: Math.min(last, picked + 10),
      Home: 0, End: last,
    }[event.key];
    if (at === undefined || last < 0) return;
    event.preventDefault();
    this.onPick(this.rows[at]);
  }

  fit() {
    if (this.plot && this.node.clientWidth > 0) {
      this.plot.setSize({ width: this.node.clientWidth, height: HEIGHT });
    }
  }
}

/* uPlot's columns (seconds, final values, open values) and the row of each index. A null between
   two instants breaks the line. The first open window also ends the line of the final ones. */
function columns(rows, aggregate, window) {
  const [instants, finals, opens, rowOf] = [[], [], [], []];
  const push = (instant, final, open, row) => {
    instants.push(instant);
    finals.push(final);
    opens.push(open);
    rowOf.push(row);
  };
  const amountOf = (row) => row[aggregate] === null ? null : Number(row[aggregate]);
  // The step of a tumbling window ends with it, not where the next one begins.
  const endStep = (row) => {
    if (window.kind !== "tumbling") return;
    const amount = amountOf(row);
    push((row.window_end_ms - 1) / 1000, row.final ? amount : null, row.final ? null : amount, row);
  };
  const joinsLines = window.kind !== "session";
  rows.forEach((row, number) => {
    const before = rows[number - 1];
    const instant = instantOf(row, window.kind) / 1000;
    const isAfterGap = before !== undefined && joinsLines && isGap(before, row, window);
    if (isAfterGap) {
      endStep(before);
      push((instants.at(-1) + instant) / 2, null, null, null);
    }
    const amount = amountOf(row);
    const isFirstOpen = joinsLines && !row.final && before?.final === true && !isAfterGap;
    push(instant, row.final || isFirstOpen ? amount : null, row.final ? null : amount, row);
  });
  if (rows.length > 0) endStep(rows.at(-1));
  return { data: [instants, finals, opens], rowOf };
}

/* The ends of the axis, with a little room, in seconds. */
function extent(rows, kind, fromMs, toMs) {
  const first = rows.length ? instantOf(rows[0], kind) : 0;
  const last = rows.length ? Math.max(instantOf(rows.at(-1), kind), rows.at(-1).window_end_ms) : 1;
  const [min, max] = [fromMs ?? first, toMs ?? last];
  const room = Math.max(500, (max - min) * 0.01);
  return { min: (min - room) / 1000, max: (max + room) / 1000 };
}

function around(low, high, fromZero) {
  if (low === null) return [0, 1];
  const [least, greatest] = fromZero ? [Math.min(0, low), Math.max(0, high)] : [low, high];
  const room = (greatest - least) * 0.08 || Math.abs(greatest) * 0.1 || 1;
  return [least === 0 || (low >= 0 && least < room) ? 0 : least - room, greatest + room];
}

/* Times of the axis: the day stands where it begins anew, seconds only where they differ. */
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
