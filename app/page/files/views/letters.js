/* Dead letters: how many for each reason, and each of them with its record, the newest first. */

import { link } from "../base/address.js";
import { button, definitions, element, reconcile, setAttribute, setText } from "../base/dom.js";
import { clock, number, time, zoneName } from "../base/formats.js";
import { get, pathOf } from "../base/service.js";

const PAGE_ROWS = 100;
/* Dead letters are read from their table, which costs more than a read of an index. */
const GAP_MS = 10000;
const EXCERPT = 200;

export class Letters {
  constructor(page) {
    this.page = page;
    this.minGapMs = GAP_MS;
    this.reasons = element("ul", { class: "reasons" });
    this.note = element("p", { class: "note empty" });
    this.list = element("div", { class: "letters" });
    this.further = button("Show more", () => this.more());
    this.node = element("div", {},
      element("div", { class: "head" }, element("h1", {}, "Dead letters")),
      this.reasons, this.note, this.list, this.further);
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
    setText(this.note, counts.total === 0 ? "No dead letters. Every record could be used."
      : "No dead letters with this reason");
    this.draw();
  }

  watched() {
    return { store: null };
  }

  async apply() {
    // An open dead letter, and those that were read after the first page, stay where they are.
    const isRead = this.letters.length > PAGE_ROWS || this.list.querySelector("[open]") !== null;
    if (!isRead) await this.show(this.choice);
  }

  async more() {
    this.further.disabled = true;
    try {
      const page = await get(this.path(this.cursor));
      this.letters = [...this.letters, ...page.letters];
      this.cursor = page.next_cursor;
      this.draw();
    } catch (error) {
      this.page.showProblem(error);
    } finally {
      this.further.disabled = false;
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
    this.further.hidden = this.cursor === null;
    reconcile(this.list, this.letters,
      ({ topic, partition, offset, store, revision }) =>
        `${topic}/${partition}/${offset}/${store}/${revision}`,
      makeLetter, (node, letter) => fillLetter(node, letter));
  }
}

function makeLetter(letter) {
  const summary = element("summary", {}, element("strong"), element("span", { class: "place" }),
    element("span", { class: "detail" }), element("code"));
  const node = element("details", { class: "card" }, summary);
  // The fields are made when the dead letter is opened.
  node.addEventListener("toggle", () => {
    if (node.open && node.children.length === 1) node.append(fieldsOf(letter));
  });
  return node;
}

function fillLetter(node, { reason, topic, partition, offset, detail, value }) {
  const [name, place, why, record] = node.firstChild.children;
  setText(name, reason);
  setText(place, `${topic} ${partition} ${number(offset)}`);
  setText(why, detail);
  setText(record, value.data.slice(0, EXCERPT));
}

function fieldsOf(letter) {
  const { topic, partition, offset, timestamp_ms: timeMs, key, headers, value, ...others } = letter;
  // A replay by an earlier version noted no time.
  const when = (ms) => ms === 0 ? "at an unknown time" : `${time(ms)} ${zoneName()}`;
  const textOf = (name, content) => /_ms$/.test(name) ? when(content) : String(content);
  const list = element("dl", { class: "fields" });
  const bytes = (content) => content === null ? "none or unknown"
    : content.encoding === "base64" ? `base64: ${content.data}` : content.data;
  definitions(list, [
    ["Record", `topic ${topic}, partition ${partition}, offset ${number(offset)}`],
    ["Time", timeMs === null ? "unknown" : `${clock(timeMs)} ${zoneName()}`],
    ["Key", bytes(key)],
    ...Object.entries(others).map(([name, content]) => [LABELS[name] ?? name,
      name === "store" && content === null ? "all stores" : content === null ? "–"
        : textOf(name, content)]),
    ...(headers ?? []).map((header) => [`Header ${header.key}`, bytes(header.value)]),
  ]);
  return element("div", {}, list, element("h2", {}, "Record"),
    element("pre", { tabindex: 0 }, bytes(value)));
}

const LABELS = { store: "Store", reason: "Reason", detail: "Detail", revision: "Batch",
  replayed_ms: "Replayed", repeats_offset: "Repeats offset" };
