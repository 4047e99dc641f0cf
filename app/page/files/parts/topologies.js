/* The topology of each pipeline: boxes in columns from topics to output topics, and arrows. */

import { element, svgElement } from "../base/dom.js";
import { get, pathOf } from "../base/service.js";

const [BOX, GAP, LINE, PADDING, ROW_GAP] = [210, 230, 17, 9, 22];
const [BOX_LETTERS, LABEL_LETTERS] = [28, 30];

export class Topologies {
  constructor() {
    this.drawn = element("div", {});
    this.node = element("details", { class: "card", id: "topology" },
      element("summary", {}, "Topology"), this.drawn);
    // A topology changes only if its pipeline restarts, so the page reads it when it is opened.
    this.node.addEventListener("toggle", () => this.node.open && this.read());
  }

  async read() {
    try {
      const { pipelines } = await get(pathOf("topology"));
      this.drawn.replaceChildren(...pipelines.map((each) => element("figure", {},
        element("figcaption", { class: "note" }, each.pipeline),
        element("div", { class: "scroll", tabindex: 0, role: "region",
          "aria-label": `Topology of ${each.pipeline}` }, picture(each)))));
    } catch (problem) {
      this.drawn.replaceChildren(element("p", { class: "note" }, problem.message));
    }
  }
}

function picture({ nodes, arrows }) {
  const places = placed(nodes, arrows);
  const width = Math.max(...[...places.values()].map(({ x }) => x)) + BOX + 2;
  const height = Math.max(...[...places.values()].map(({ y, height: own }) => y + own)) + 2;
  const text = arrows.map(({ source, target, steps }) =>
    [places.get(source).name, ...steps, places.get(target).name].join(" → ")).join("; ");
  return svgElement("svg", { class: "topology", role: "img", "aria-label": text, width, height,
    viewBox: `0 0 ${width} ${height}` },
  svgElement("defs", {}, svgElement("marker", { id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4,
    markerWidth: 8, markerHeight: 8, orient: "auto" },
  svgElement("path", { d: "M 0 0 L 8 4 L 0 8 z" }))),
  arrows.map((arrow) => line(arrow, places)), [...places.values()].map(box),
  arrows.map((arrow) => label(arrow, places)));
}

/* Each node with its place. A column is later than the columns of all its inputs, and a node
   without inputs is one column before its first reader. */
export function placed(nodes, arrows) {
  const columnOf = new Map(nodes.map(({ id }) => [id, 0]));
  // Each round finds the next column, and a topology has no cycle.
  for (let round = 0; round < nodes.length; round += 1) {
    for (const { source, target } of arrows) {
      columnOf.set(target, Math.max(columnOf.get(target), columnOf.get(source) + 1));
    }
  }
  for (const { id } of nodes) {
    const readers = arrows.filter(({ source }) => source === id);
    if (readers.length > 0 && !arrows.some(({ target }) => target === id)) {
      columnOf.set(id, Math.min(...readers.map(({ target }) => columnOf.get(target))) - 1);
    }
  }
  const filled = new Map();
  return new Map(nodes.map((node) => {
    const column = columnOf.get(node.id);
    const y = filled.get(column) ?? 1;
    const height = (1 + node.lines.length) * LINE + 2 * PADDING;
    filled.set(column, y + height + ROW_GAP);
    return [node.id, { ...node, x: 1 + column * (BOX + GAP), y, height }];
  }));
}

function ends({ source, target }, places) {
  const [from, to] = [places.get(source), places.get(target)];
  return [from.x + BOX, from.y + from.height / 2, to.x, to.y + to.height / 2];
}

function line(arrow, places) {
  const [x0, y0, x1, y1] = ends(arrow, places);
  const middle = (x0 + x1) / 2;
  return svgElement("path", { class: "arrow", "marker-end": "url(#tip)",
    d: `M ${x0} ${y0} C ${middle} ${y0}, ${middle} ${y1}, ${x1} ${y1}` });
}

function label(arrow, places) {
  const [x0, y0, x1, y1] = ends(arrow, places);
  const top = (y0 + y1) / 2 - (arrow.steps.length - 1) * LINE / 2 - 4;
  return lines(arrow.steps, (x0 + x1) / 2, top, LABEL_LETTERS, "step");
}

function box({ kind, name, lines: more, x, y, height }) {
  return svgElement("g", { "data-kind": kind },
    svgElement("rect", { x, y, width: BOX, height,
      rx: kind === "store" ? 6 : Math.min(height / 2, 20) }),
    lines([name, ...more], x + BOX / 2, y + PADDING + LINE - 4, BOX_LETTERS, "name"));
}

/* Lines of text that are cut if they are long, with the whole text as a tooltip. */
function lines(texts, x, y, letters, kind) {
  return svgElement("text", { class: kind, "text-anchor": "middle" },
    svgElement("title", {}, texts.join("\n")),
    texts.map((text, at) => svgElement("tspan", { x, y: y + at * LINE },
      text.length > letters ? `${text.slice(0, letters - 1)}…` : text)));
}
