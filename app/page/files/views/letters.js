/* Dead letters: how many by reason, and each with its place and content, the newest first. */

import { link } from "../base/address.js";
import { element, reconcile, setAttribute, setText } from "../base/dom.js";
import { clock, number, zoneName } from "../base/formats.js";
import { get, pathOf } from "../base/service.js";
import { Table } from "../parts/table.js";

const PAGE_ROWS = 100;
/* Letters are read from their table, which costs the service more than a read of its index. */
const GAP_MS = 10000;

export class Letters {
  constructor(page) {
    this.page = page;
    this.minGapMs = GAP_MS;
    this.reasons = element("ul", { class: "reasons" });
    this.note = element("p", { class: "note empty" });
    this.table = new Table("Dead letters", () => this.more(), (letter) => this.open(letter));
    this.whole = element("pre", { tabindex: 0 });
    this.closer = element("button", { type: "button" }, "Close");
    this.dialog = element("dialog", { "aria-label": "Dead letter" }, this.whole, this.closer);
    this.closer.addEventListener("click", () => this.dialog.close());
    this.card = element("section", { class: "card", "aria-label": "Dead letters" },
      this.table.node);
    this.node = element("div", {},
      element("div", { class: "head" }, element("h1", {}, "Dead letters")),
      this.reasons, this.note, this.card, this.dialog);
  }

  async show(choice) {
    document.title = "Dead letters · Oriel";
    this.choice = choice;
    const counts = await get(pathOf("countDeadLetters"));
    const page = await get(this.path(null));
    this.letters = page.letters;
    this.cursor = page.next_cursor;
    this.drawReasons(counts);
    this.note.hidden = page.letters.length > 0;
    this.card.hidden = page.letters.length === 0;
    setText(this.note, counts.total === 0
      ? "No record was put aside: every one could be used." : "There is none of this reason.");
    this.draw();
  }

  watched() {
    return { store: null, key: null, version: null };
  }

  async apply() {
    // Who has gone further down keeps what is there.
    if (this.table.node.scrollTop === 0) await this.show(this.choice);
  }

  async more() {
    const { cursor } = this;
    if (cursor === null || this.isLoading) return;
    this.isLoading = true;
    try {
      const page = await get(this.path(cursor));
      if (cursor !== this.cursor) return;
      this.letters = [...this.letters, ...page.letters];
      this.cursor = page.next_cursor;
      this.draw();
    } catch (error) {
      this.page.showProblem(error);
    } finally {
      this.isLoading = false;
    }
  }

  path(cursor) {
    return pathOf("listDeadLetters", {}, { limit: PAGE_ROWS, reason: this.choice.reason, cursor });
  }

  drawReasons({ total, by_reason: byReason }) {
    const reasons = total === 0 ? [] : [[null, total], ...Object.entries(byReason)];
    reconcile(this.reasons, reasons, ([reason]) => reason,
      ([reason]) => element("li", {}, element("a", { href: link({ view: "letters", reason }) })),
      (item, [reason, count]) => {
        const isChosen = reason === (this.choice.reason ?? null);
        setText(item.firstChild, `${reason ?? "all"} ${number(count)}`);
        setAttribute(item.firstChild, "aria-current", isChosen ? "true" : null);
      });
  }

  draw() {
    this.table.show([
      { name: "place", title: "topic, partition, offset", kind: "time",
        cell: ({ topic, partition, offset }) => `${topic} ${partition} ${number(offset)}` },
      { name: "reason", title: "reason", kind: "text", cell: (letter) => letter.reason },
      { name: "value", title: "record", kind: "text", cell: (letter) => letter.value.data },
      { name: "detail", title: "what was wrong", kind: "text", cell: (letter) => letter.detail },
      { name: "store", title: "store", kind: "text", cell: (letter) => letter.store ?? "all" },
      { name: "timestamp_ms", title: `time (${zoneName()})`, kind: "time",
        cell: ({ timestamp_ms: timeMs }) => timeMs === null ? "–" : clock(timeMs) },
    ], this.letters, {
      keyOf: ({ topic, partition, offset, store }) => `${topic}/${partition}/${offset}/${store}`,
      isWhole: this.cursor === null,
    });
  }

  open(letter) {
    setText(this.whole, JSON.stringify(letter, null, 2));
    this.dialog.showModal();
  }
}
