/* A table of any length: only the rows in view are elements, and more are read near the end. */

import { element, reconcile, setAttribute, setText } from "../base/dom.js";

const ROW_PX = 34;
/* Rows above and below the visible ones, so that none is missing during a scroll. */
const SPARE = 8;
/* Rows that usually arrive on top of the table in one update. */
const NEAR = 64;

export class Table {
  /* Calls onEnd near the end of the rows, and onPick(item) for a row that was clicked, or chosen
     with the arrow keys and Enter. */
  constructor(label, onEnd, onPick = () => {}) {
    this.onEnd = onEnd;
    this.head = element("tr", { "aria-rowindex": 1 });
    this.above = element("tbody", { "aria-hidden": "true" }, element("tr"));
    this.body = element("tbody");
    this.below = element("tbody", { "aria-hidden": "true" }, element("tr"));
    this.table = element("table", { role: "grid", tabindex: 0, "aria-label": label },
      element("thead", {}, this.head), this.above, this.body, this.below);
    this.node = element("div", { class: "scroll" }, this.table);
    this.idStart = label.replaceAll(" ", "-");
    this.items = [];
    this.columns = [];
    /* The row of the keyboard's cursor. */
    this.active = null;
    this.table.addEventListener("keydown", (event) => this.step(event));
    this.onPick = onPick;
    this.node.addEventListener("scroll", () => this.draw(), { passive: true });
    this.body.addEventListener("click", (event) => onPick(event.target.closest("tr").item));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  /* columns: { name, title, cell(item), kind, hint(item), state(item) }. keyOf(item) is unique. */
  show(columns, items, { keyOf, isWhole, isPicked = () => false }) {
    // If the user has scrolled, the visible rows stay where they are when rows arrive on top.
    const topAt = Math.floor(this.node.scrollTop / ROW_PX);
    const top = this.node.scrollTop > 0 ? this.items[topAt] : undefined;
    const at = top === undefined ? -1 : indexNear(items, topAt,
      (item) => keyOf(item) === this.keyOf(top));
    const moved = at < 0 ? 0 : at - topAt;
    Object.assign(this, { columns, items, keyOf, isWhole, isPicked });
    this.node.items = items;
    reconcile(this.head, columns, (column) => column.name,
      (column) => element("th", { scope: "col", class: column.kind }),
      (head, column) => setText(head, column.title));
    setAttribute(this.table, "aria-rowcount", isWhole ? items.length + 1 : -1);
    this.draw();
    if (moved !== 0) this.node.scrollTop += moved * ROW_PX;
  }

  draw() {
    const inView = Math.ceil(this.node.clientHeight / ROW_PX);
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW_PX) - SPARE);
    const last = Math.min(this.items.length, first + inView + 2 * SPARE);
    spare(this.above, first);
    spare(this.below, this.items.length - last);
    reconcile(this.body, this.items.slice(first, last), (item) => this.keyOf(item),
      () => element("tr"), (row, item, number) => this.fill(row, item, first + number));
    if (!this.isWhole && this.items.length > 0 && last + SPARE >= this.items.length) this.onEnd();
  }

  fill(row, item, number) {
    row.item = item;
    setAttribute(row, "aria-rowindex", number + 2);
    const isActive = this.active !== null && this.keyOf(item) === this.active;
    const classes = [this.isPicked(item) && "picked", isActive && "active"].filter(Boolean);
    setAttribute(row, "class", classes.join(" ") || null);
    setAttribute(row, "id", `${this.idStart}-${number}`);
    if (isActive) setAttribute(this.table, "aria-activedescendant", row.id);
    reconcile(row, this.columns, (column) => column.name,
      (column) => element("td", { class: column.kind }),
      (cell, column) => {
        const content = column.cell(item);
        setText(cell, content);
        const hint = column.hint?.(item) ?? (content.length > 24 ? content : null);
        setAttribute(cell, "title", hint);
        if (column.state) setAttribute(cell, "data-state", column.state(item));
      });
  }

  step(event) {
    const at = this.items.findIndex((item) => this.keyOf(item) === this.active);
    if (event.key === "Enter" && at >= 0) {
      this.onPick(this.items[at]);
      return;
    }
    const page = Math.floor(this.node.clientHeight / ROW_PX) - 1;
    const to = {
      ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page,
      Home: 0, End: this.items.length - 1,
    }[event.key];
    if (to === undefined || this.items.length === 0) return;
    event.preventDefault();
    const number = Math.max(0, Math.min(this.items.length - 1, to));
    this.active = this.keyOf(this.items[number]);
    this.scrollTo(number);
    this.draw();
  }

  scrollTo(number) {
    const [top, inView] = [number * ROW_PX, this.node.clientHeight - 2 * ROW_PX];
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (top > this.node.scrollTop + inView) this.node.scrollTop = top - inView;
  }
}

/* The index of an item, which is usually at its former index or shortly after it. */
function indexNear(items, former, isSame) {
  const near = items.slice(former, former + NEAR).findIndex(isSame);
  return near < 0 ? items.findIndex(isSame) : former + near;
}

function spare(body, rows) {
  body.firstElementChild.style.height = `${rows * ROW_PX}px`;
  body.hidden = rows === 0;
}
