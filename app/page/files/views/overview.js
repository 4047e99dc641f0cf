/* Pipelines with their state and lag, and all stores with a line of a key. */

import { complete, link } from "../base/address.js";
import { element, reconcile, setAttribute, setText, svgElement } from "../base/dom.js";
import { age, clock, isNumber, number, windowText, zoneName } from "../base/formats.js";
import { fits, get, pathOf } from "../base/service.js";
import { heldText, isWell, lagText, logEndText, rateText } from "../base/status.js";
import { numericAggregates } from "../base/windows.js";
import { Topologies } from "../parts/topologies.js";

const STORE_COLUMNS = ["Store", "Windows or rows", "Last change", "Newest record", "Open records",
  "Windows kept open by", "Late", "Dead-lettered", "Trend"];
const PIPELINE_COLUMNS = ["Pipeline", "State", "Lag", "Records per second", "Last batch", "Stores"];
const KEYS_COMPARED = 100;
const SPARK_WINDOWS = 60;
const [SPARK_WIDTH, SPARK_HEIGHT] = [140, 30];

export class Overview {
  constructor(page) {
    this.page = page;
    this.minGapMs = 1000;
    this.search = element("input", { id: "search", type: "search", autocomplete: "off" });
    this.search.addEventListener("input", () => {
      complete({ search: this.search.value || null });
      this.draw();
    });
    this.pipelines = element("tbody");
    this.stores = element("tbody");
    this.note = element("p", { class: "note empty" });
    this.pipelineCard = element("section", { class: "card", "aria-label": "Pipelines" },
      table("pipelines", PIPELINE_COLUMNS, this.pipelines));
    this.storeCard = element("section", { class: "card", "aria-label": "Stores" },
      table("stores", STORE_COLUMNS, this.stores));
    this.newest = this.storeCard.querySelectorAll("thead th")[3];
    this.node = element("div", {},
      element("div", { class: "head" }, element("h1", {}, "Overview")), this.pipelineCard,
      element("div", { class: "controls" }, element("label", {}, "Search stores", this.search)),
      this.note, this.storeCard, new Topologies().node);
    this.inView = new IntersectionObserver((entries) => entries.forEach((entry) => {
      entry.target.isInView = entry.isIntersecting;
      this.trend(entry.target);
    }));
  }

  async show(choice) {
    document.title = "Oriel";
    this.choice = choice;
    if (document.activeElement !== this.search) this.search.value = choice.search ?? "";
    [{ stores: this.summaries }] = await Promise.all([get(pathOf("listStores")),
      this.page.readStatus()]);
    this.draw();
  }

  /* No stream covers all stores. */
  watched() {
    return { store: null };
  }

  async apply() {
    await this.show(this.choice);
  }

  draw() {
    const text = this.search.value.toLowerCase();
    const shown = this.summaries.filter(({ store }) => store.toLowerCase().includes(text));
    this.note.hidden = shown.length > 0;
    this.storeCard.hidden = shown.length === 0;
    setText(this.note, this.summaries.length > 0 ? `No store has “${this.search.value}” in its name.`
      : "No store exists yet. Start a pipeline with the same --data directory. Its stores appear "
        + "here.");
    setText(this.newest, `Newest record (${zoneName()})`);
    reconcile(this.stores, shown, (summary) => summary.store, (summary) => this.row(summary),
      (row, summary) => this.fill(row, summary));
    this.drawPipelines();
    this.tick();
  }

  drawPipelines() {
    const pipelines = this.page.status?.pipelines ?? [];
    this.pipelineCard.hidden = pipelines.length === 0;
    reconcile(this.pipelines, pipelines, ({ pipeline }) => pipeline, () => {
      const row = rowOf(PIPELINE_COLUMNS);
      row.children[0].append(element("span"), element("span", { class: "note" }));
      return row;
    }, (row, pipeline) => {
      const [name, state, lag, rate, , stores] = row.children;
      row.pipeline = pipeline;
      setText(name.firstChild, pipeline.pipeline);
      setText(name.lastChild, pipeline.problem ?? "");
      setAttribute(row, "class", isWell(pipeline) ? null : "problem");
      setText(state, pipeline.state);
      setAttribute(state, "data-health", isWell(pipeline) ? "well" : "ill");
      setText(lag, `${lagText(pipeline, pipeline.lag_unit)}, `
        + logEndText(pipeline, this.page.status.time_ms));
      setText(rate, rateText(pipeline));
      setText(stores, pipeline.stores.join(", "));
    });
  }

  row(summary) {
    const row = rowOf(STORE_COLUMNS);
    row.children[0].append(element("a", { href: link({ store: summary.store }) }, summary.store),
      element("span", { class: "note" }));
    row.lastElementChild.append(sparkline());
    this.inView.observe(row);
    return row;
  }

  fill(row, summary) {
    const isNew = row.summary?.position?.version !== summary.position?.version;
    row.summary = summary;
    const [name, count, , newest, open, held, late, dead] = row.children;
    setText(name.lastChild, summary.ready ? windowText(summary.window) : summary.problem);
    setAttribute(row, "class", summary.ready ? null : "problem");
    const counter = (field) => summary.counters[field] === undefined ? "–"
      : number(summary.counters[field]);
    setText(count, summary.windows === null ? "–" : number(summary.windows));
    const times = Object.values(summary.stream_time_ms).flatMap((each) => Object.values(each));
    const newestMs = Math.max(-1, ...times);
    setText(newest, newestMs < 0 ? "–" : clock(newestMs));
    const reported = this.page.status?.stores.find(({ store }) => store === summary.store);
    setText(open, reported?.open_records == null ? "–" : number(reported.open_records));
    setText(held, reported ? heldText(reported) : "–");
    setText(late, counter("late"));
    setText(dead, "");
    const letters = counter("dead_lettered");
    dead.append(letters === "0" || letters === "–" ? letters
      : element("a", { href: link({ view: "letters" }) }, letters));
    if (isNew) this.trend(row);
  }

  /* Called once a second, because ages grow. */
  tick() {
    const ageOf = (ms) => ms === null || ms === undefined ? "–" : `${age(Date.now() - ms)} ago`;
    for (const row of this.stores.children) {
      setText(row.children[2], ageOf(row.summary.committed_ms));
    }
    for (const row of this.pipelines.children) {
      setText(row.children[4], ageOf(row.pipeline.batch_ms));
    }
  }

  /* Draws the windows of a store's greatest key up to its current one, if the row is visible. */
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
    } catch {
      // A token with a key prefix can't read all keys. Everything but the line is complete.
    } finally {
      row.drawnVersion = summary.position.version;
      row.isDrawing = false;
    }
  }
}

function table(name, columns, body) {
  return element("table", { class: `cards ${name}` }, element("thead", {},
    element("tr", {}, columns.map((column) => element("th", { scope: "col" }, column)))), body);
}

function rowOf(columns) {
  return element("tr", {}, columns.map((name, at) => element(at === 0 ? "th" : "td",
    { "data-name": name, scope: at === 0 ? "row" : null })));
}

async function drawTrend(row, store, name) {
  const { windows: currents } = await get(pathOf("currentAll", { store },
    { limit: KEYS_COMPARED, columns: name }));
  const known = currents.filter((current) => isNumber(current[name]));
  if (known.length === 0) return;
  const greatest = known.reduce((best, each) => each[name] > best[name] ? each : best);
  const { windows } = await get(pathOf("backwardFetch", { store, key: greatest.key },
    { limit: SPARK_WINDOWS, columns: name, to_ms: greatest.window_start_ms }));
  const values = windows.map((each) => each[name]).filter(isNumber).map(Number).reverse();
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const points = values.map((each, at) => {
    const x = (at / Math.max(1, values.length - 1)) * (SPARK_WIDTH - 4) + 2;
    const y = SPARK_HEIGHT - 3 - ((each - low) / (high - low || 1)) * (SPARK_HEIGHT - 6);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const cell = row.lastElementChild;
  setAttribute(cell.querySelector("polyline"), "points", points.join(" "));
  setText(cell.querySelector(".note"), `${name}, ${greatest.key}`);
}

function sparkline() {
  return element("span", { class: "trend" },
    svgElement("svg", {
      viewBox: `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`, width: SPARK_WIDTH, height: SPARK_HEIGHT,
      "aria-hidden": "true",
    }, svgElement("polyline", {})),
    element("span", { class: "note" }));
}
