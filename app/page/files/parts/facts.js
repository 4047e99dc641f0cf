/* How far a store has come: in words (words), and number by number (node). */

import { element, reconcile, setText } from "../base/dom.js";
import { age, clock, number, zoneName } from "../base/formats.js";
import { nounOf } from "../base/windows.js";

const PARTITIONS_IN_WORDS = 3;
const COUNTER_NAMES = {
  input: "Records read", applied: "Applied", late: "Late", dead_lettered: "Dead-lettered",
  filtered: "Filtered out", late_results: "Late results of joins",
  rejected_results: "Dead-lettered results of joins", table_records: "Of these in tables",
  elements: "Elements of records", elements_applied: "Elements applied",
  elements_late: "Elements late", elements_dead_lettered: "Elements dead-lettered",
  elements_filtered: "Elements filtered out",
};

export class Facts {
  constructor() {
    this.words = element("p", { class: "words" });
    this.counters = element("dl", { class: "counters" });
    this.partitions = element("tbody");
    this.head = element("tr");
    this.node = element("details", { class: "card" },
      element("summary", {}, "Position and counters"),
      this.counters,
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Partitions" },
        element("table", {}, element("thead", {}, this.head), this.partitions)));
  }

  show(detail) {
    this.detail = detail;
    const { counters, index, stream_time_ms: clocks } = detail;
    const kind = detail.definition.window.kind;
    const numbers = [
      ["Table version", number(detail.position.version)],
      [`${capital(nounOf(kind))} in the index`, number(index.windows)],
      ...Object.entries(counters).map(([name, count]) =>
        [COUNTER_NAMES[name] ?? name, number(count)]),
      ["Index", index.problem ?? index.state],
    ];
    reconcile(this.counters, numbers, ([name]) => name,
      () => element("div", {}, element("dt"), element("dd")), (pair, [name, text]) => {
        setText(pair.firstChild, name);
        setText(pair.lastChild, text);
      });
    const rows = partitions(detail).map(([topic, partition, offset]) => {
      const clockMs = clocks[topic]?.[partition] ?? -1;
      return [topic, partition, number(offset), clockMs < 0 ? "–" : clock(clockMs)];
    });
    const heads = ["Topic", "Partition", "Includes offsets below", `Newest record (${zoneName()})`];
    fillRow(this.head, heads, "th");
    reconcile(this.partitions, rows, ([topic, partition]) => `${topic}/${partition}`,
      () => element("tr"), (row, texts) => fillRow(row, texts, "td"));
    this.tick();
  }

  /* Once a second: ages grow. */
  tick() {
    if (this.detail) setText(this.words, inWords(this.detail));
  }
}

function fillRow(row, texts, name) {
  reconcile(row, texts, (_, at) => at, () => element(name), setText);
}

function partitions(detail) {
  return Object.entries(detail.position.offsets).flatMap(([topic, offsets]) =>
    Object.entries(offsets).map(([partition, offset]) => [topic, partition, offset]));
}

function inWords(detail) {
  const { committed_ms: committedMs, close_ms: closeMs, position } = detail;
  const known = partitions(detail);
  const words = [committedMs === null ? `Version ${number(position.version)}.`
    : `Last change ${age(Date.now() - committedMs)} ago.`];
  if (known.length > PARTITIONS_IN_WORDS) {
    words.push(`Includes records of ${known.length} partitions.`);
  } else if (known.length > 0) {
    const each = known.map(([topic, partition, offset]) =>
      `${topic} ${partition} below offset ${number(offset)}`);
    words.push(`Includes all of ${each.join(", ")}.`);
  } else words.push("No record has come yet.");
  if (detail.definition.window.kind !== "none" && closeMs !== null && closeMs >= 0) {
    words.push(`Final before ${clock(closeMs)}.`);
  }
  if (detail.definition.emit === "window-close") words.push("Has final windows only.");
  if (detail.index.problem !== null) words.push(`Index: ${detail.index.problem}.`);
  return words.join(" ");
}

export function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}
