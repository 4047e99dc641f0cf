/* All stores: what each is, how fresh, and a line of its busiest key. */

import { link } from "../base/address.js";
import { element, reconcile, setAttribute, setText, svgElement } from "../base/dom.js";
import { age, clock, isNumber, number, windowText, zoneName } from "../base/formats.js";
import { fits, get, pathOf } from "../base/service.js";
import { numericAggregates } from "../base/windows.js";

const COLUMNS = ["Store", "Windows or rows", "Last change", "Newest record", "Late",
  "Dead-lettered", "Trend"];
const KEYS_COMPARED = 100;
const SPARK_WINDOWS = 60;
const [SPARK_WIDTH, SPARK_HEIGHT] = [140, 30];

export class Overview {
  constructor(page) {
    this.page = page;
    this.minGapMs = 1000;
    this.body = element("tbody");
    this.note = element("p", { class: "note empty" });
    this.newest = element("th", { scope: "col" }, "");
    this.table = element("table", { class: "stores" }, element("thead", {},
      element("tr", {}, COLUMNS.map((name) => name === "Newest record" ? this.newest
        : element("th", { scope: "col" }, name)))), this.body);
    this.node = element("div", {},
      element("div", { class: "head" }, element("h1", {}, "Stores")), this.note,
      element("section", { class: "card", "aria-label": "Stores" }, this.table));
    this.inView = new IntersectionObserver((entries) => entries.forEach((entry) => {
      entry.target.isInView = entry.isIntersecting;
      this.trend(entry.target);
    }));
  }

  async show() {
    document.title = "Oriel";
    const { stores } = await get(pathOf("listStores"));
    this.note.hidden = stores.length > 0;
    this.table.parentElement.hidden = stores.length === 0;
    setText(this.note, "There is no store yet. Start a pipeline on the service's data folder: it "
      + "appears here by itself.");
    setText(this.newest, `Newest record (${zoneName()})`);
    reconcile(this.body, stores, (summary) => summary.store, (summary) => this.row(summary),
      (row, summary) => this.fill(row, summary));
    this.tick();
  }

  /* There is no stream of all stores. */
  watched() {
    return { store: null, key: null, version: null };
  }

  async apply() {
    await this.show();
  }

  row(summary) {
    const cells = COLUMNS.map((name, at) =>
      element(at === 0 ? "th" : "td", { "data-name": name, scope: at === 0 ? "row" : null }));
    cells[0].append(
      element("a", { href: link({ store: summary.store }) }, summary.store),
      element("span", { class: "note" }));
    cells[6].append(sparkline());
    const row = element("tr", {}, cells);
    this.inView.observe(row);
    return row;
  }

  fill(row, summary) {
    const isNew = row.summary?.position?.version !== summary.position?.version;
    row.summary = summary;
    const [name, count, , newest, late, dead] = row.children;
    setText(name.lastChild, summary.ready ? windowText(summary.window) : summary.problem);
    setAttribute(row, "class", summary.ready ? null : "problem");
    const counter = (field) => summary.counters[field] === undefined ? "–"
      : number(summary.counters[field]);
    setText(count, summary.windows === null ? "–" : number(summary.windows));
    const clocks = Object.values(summary.stream_time_ms).flatMap((each) => Object.values(each));
    const newestMs = Math.max(-1, ...clocks);
    setText(newest, newestMs < 0 ? "–" : clock(newestMs));
    setText(late, counter("late"));
    setText(dead, "");
    const letters = counter("dead_lettered");
    dead.append(letters === "0" || letters === "–" ? letters
      : element("a", { href: link({ view: "letters" }) }, letters));
    if (isNew) this.trend(row);
  }

  /* Once a second: ages grow. */
  tick() {
    for (const row of this.body.children) {
      const committedMs = row.summary.committed_ms;
      setText(row.children[2],
        committedMs === null ? "–" : `${age(Date.now() - committedMs)} ago`);
    }
  }

  /* Draws the newest windows of a store's busiest key, if somebody sees it; one at a time. */
  async trend(row) {
    const { summary } = row;
    const isDrawn = row.drawnVersion === summary.position?.version;
    if (!row.isInView || row.isDrawing || isDrawn || !summary.ready) return;
    const [aggregate] = numericAggregates(summary);
    if (aggregate === undefined || !fits("currentAll", summary.window.kind)) {
      setText(row.lastElementChild, "–");
      return;
    }
    row.isDrawing = true;
    try {
      await drawTrend(row, summary.store, aggregate.name);
      row.drawnVersion = summary.position.version;
    } catch {
      // A token may not reach all keys: the line is missing, everything else is there.
      row.drawnVersion = summary.position.version;
    } finally {
      row.isDrawing = false;
    }
  }
}

async function drawTrend(row, store, name) {
  const { windows: currents } = await get(pathOf("currentAll", { store },
    { limit: KEYS_COMPARED, columns: name }));
  const known = currents.filter((current) => isNumber(current[name]));
  if (known.length === 0) return;
  const busiest = known.reduce((best, each) => each[name] > best[name] ? each : best);
  const { windows } = await get(pathOf("backwardFetch", { store, key: busiest.key },
    { limit: SPARK_WINDOWS, columns: name }));
  const values = windows.map((each) => each[name]).filter(isNumber).map(Number).reverse();
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((each, at) => {
    const x = (at / Math.max(1, values.length - 1)) * (SPARK_WIDTH - 4) + 2;
    const y = SPARK_HEIGHT - 3 - ((each - low) / (high - low || 1)) * (SPARK_HEIGHT - 6);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const cell = row.lastElementChild;
  setAttribute(cell.querySelector("polyline"), "points", points.join(" "));
  setText(cell.querySelector(".note"), `${name}, ${busiest.key}`);
}

function sparkline() {
  return element("span", { class: "trend" },
    svgElement("svg", {
      viewBox: `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`, width: SPARK_WIDTH, height: SPARK_HEIGHT,
      "aria-hidden": "true",
    }, svgElement("polyline", {})),
    element("span", { class: "note" }));
}
