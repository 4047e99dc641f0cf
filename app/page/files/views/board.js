/* A board: charts of several stores, keys and ranges in one link. */

import { complete, go, link, read, write } from "../base/address.js";
import { button, element, reconcile, setAttribute, setText } from "../base/dom.js";
import { span, windowText } from "../base/formats.js";
import { RANGES } from "../base/range.js";
import { get, pathOf } from "../base/service.js";
import { columnsOf, shownDefinition } from "../base/steps.js";
import { ChartCard } from "../parts/chart_card.js";

/* The board that was shown last, which "Add to board" extends. */
const BOARD_HERE = "oriel-board";
/* A browser opens six connections to one host, and requests need some of them. */
const STREAMS_MAX = 3;

/* Adds the chart with this address, and shows the board. */
export function addToBoard(chart) {
  const board = read(localStorage.getItem(BOARD_HERE) ?? "view=board");
  location.hash = link({ ...board, view: "board", charts: [...board.charts, chart] });
}

export function boardLink() {
  return link({ ...read(localStorage.getItem(BOARD_HERE) ?? ""), view: "board" });
}

export class Board {
  constructor() {
    this.minGapMs = 500;
    this.heading = element("h1");
    this.title = element("input", { id: "title", type: "text", autocomplete: "off" });
    this.title.addEventListener("input", () => {
      complete({ title: this.title.value || null });
      this.remember();
    });
    this.note = element("p", { class: "note empty" },
      "This board has no chart. Open a store and choose Add to board.");
    this.charts = element("div", { class: "board" });
    this.said = element("span", { class: "note", role: "status" });
    this.node = element("div", {},
      element("div", { class: "head" }, this.heading,
        element("div", { class: "controls" }, element("label", {}, "Title", this.title),
          button("Copy link", () => this.copy()),
          button("New board", () => go({ title: null, charts: [] })), this.said)),
      this.note, this.charts);
  }

  async show(choice) {
    this.choice = choice;
    this.remember();
    setText(this.said, "");
    if (document.activeElement !== this.title) this.title.value = choice.title ?? "";
    this.note.hidden = choice.charts.length > 0;
    const items = choice.charts.map((text, at) => ({ text, at }));
    reconcile(this.charts, items, ({ text, at }) => `${at} ${text}`, () => this.makeChart(),
      (node, { text, at }) => this.placeChart(node, text, at));
    const nodes = [...this.charts.children];
    await Promise.all(nodes.map((node) => this.showChart(node)));
  }

  remember() {
    const { title, charts } = read();
    setText(this.heading, title ?? "Board");
    document.title = `${title ?? "Board"} · Oriel`;
    localStorage.setItem(BOARD_HERE, write({ view: "board", title, charts }));
  }

  makeChart() {
    const card = new ChartCard({
      onZoom: (from, to) => this.change(node, { from, to, range: null }),
    });
    const anchor = element("a");
    const node = element("section", { class: "card" },
      element("div", { class: "title" }, element("h2", {}, anchor), element("p", { class: "note" }),
        element("div", { class: "row" },
          button("‹", () => this.move(node, -1), { "aria-label": "Move the chart up" }),
          button("›", () => this.move(node, 1), { "aria-label": "Move the chart down" }),
          button("×", () => this.move(node, null), { "aria-label": "Remove the chart" }))),
      element("p", { class: "problem", role: "alert", hidden: "" }), card.node);
    Object.assign(node, { card, anchor });
    return node;
  }

  placeChart(node, text, at) {
    Object.assign(node, { choice: read(text), at });
    const { store, keys } = node.choice;
    setText(node.anchor, `${store} · ${keys.join(", ")}`);
    setAttribute(node.anchor, "href", `#${text}`);
    setAttribute(node, "aria-label", `${store}, ${keys.join(", ")}`);
  }

  /* A chart that fails says why, and the other charts work. */
  async showChart(node) {
    const { store } = node.choice;
    const problem = node.querySelector(".problem");
    try {
      const detail = await get(pathOf("describeStore", { store }));
      const definition = shownDefinition(node.choice, detail);
      await node.card.show(node.choice, definition,
        columnsOf(definition, node.choice.aggregates));
      setText(node.querySelector(".note"), `${rangeText(node.choice)}, ${windowText(definition.window)}`);
      problem.hidden = true;
      node.isShown = true;
    } catch (error) {
      if (["unreachable", "unauthorized"].includes(error.code)) throw error;
      problem.hidden = false;
      node.isShown = false;
      setText(problem, `${error.title ?? "The chart failed"}: ${error.message}`);
    }
  }

  change(node, changes) {
    const charts = [...this.choice.charts];
    charts[node.at] = write({ ...node.choice, ...changes, view: null });
    go({ charts });
  }

  /* Moves a chart by one place, or removes it. */
  move(node, step) {
    const charts = [...this.choice.charts];
    const [chart] = charts.splice(node.at, 1);
    if (step !== null) charts.splice(Math.max(0, node.at + step), 0, chart);
    go({ charts });
  }

  async copy() {
    const isCopied = await navigator.clipboard?.writeText(location.href)
      .then(() => true, () => false);
    setText(this.said, isCopied ? "Copied" : "Copy the address of this page.");
  }

  shown() {
    return [...this.charts.children].filter((node) => node.isShown);
  }

  /* One stream for each store, which contains the keys of all its charts. */
  watched() {
    const stores = Map.groupBy(this.shown(), (node) => node.choice.store);
    if (stores.size === 0 || stores.size > STREAMS_MAX) return { store: null };
    return [...stores].map(([store, nodes]) => ({ store, query: {
      key: [...new Set(nodes.flatMap((node) => node.choice.keys))], current: true,
      // An id starts with its version.
      after: nodes.map((node) => node.card.selection.after)
        .reduce((least, each) => parseInt(each) < parseInt(least) ? each : least),
    } }));
  }

  async apply(events) {
    for (const node of this.shown()) {
      const those = events.filter(({ store }) => store === undefined || store === null
        || store === node.choice.store);
      if (those.length > 0) await node.card.apply(those);
    }
  }
}

function rangeText({ range = "newest-100", from, to }) {
  if (from !== undefined && to !== undefined) return span(from, to);
  return (RANGES.find(([name]) => name === range)?.[1] ?? "Chosen range").toLowerCase();
}
