/* How current a store is in words, and its position and counters for operators. */

import { definitions, element, reconcile, setText } from "../base/dom.js";
import { age, clock, number, zoneName } from "../base/formats.js";
import { nounOf } from "../base/windows.js";

const COUNTER_NAMES = {
  input: "Records read", applied: "Applied", late: "Late", dead_lettered: "Dead-lettered",
  filtered: "Filtered", late_results: "Late join results",
  rejected_results: "Dead-lettered join results", table_records: "Applied to tables",
  elements: "Flattened records", elements_applied: "Flattened records applied",
  elements_late: "Flattened records late",
  elements_dead_lettered: "Flattened records dead-lettered",
  elements_filtered: "Flattened records filtered",
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
    this.isOld = false;
    const { counters, index, stream_time_ms: times } = detail;
    const noun = nounOf(detail.definition.window.kind);
    definitions(this.counters, [
      ["Table version", number(detail.position.version)],
      // A token with key prefixes does not grant access to totals.
      [`${noun[0].toUpperCase()}${noun.slice(1)} in the index`,
        index.windows === null ? "–" : number(index.windows)],
      ...Object.entries(counters).map(([name, count]) =>
        [COUNTER_NAMES[name] ?? name, number(count)]),
      ["Index", index.problem ?? index.state],
    ]);
    const partitions = Object.entries(detail.position.offsets).flatMap(([topic, offsets]) =>
      Object.entries(offsets).map(([partition, offset]) => [topic, partition, offset]));
    const rows = partitions.map(([topic, partition, offset]) => {
      const timeMs = times[topic]?.[partition] ?? -1;
      return [topic, partition, number(offset), timeMs < 0 ? "–" : clock(timeMs)];
    });
    const heads = ["Topic", "Partition", "Includes offsets below", `Stream time (${zoneName()})`];
    fillRow(this.head, heads, "th");
    reconcile(this.partitions, rows, ([topic, partition]) => `${topic}/${partition}`,
      () => element("tr"), (row, texts) => fillRow(row, texts, "td"));
    this.tick();
  }

  /* An event has changed the store now. Its other facts are read later. */
  change() {
    this.isOld = true;
    if (this.detail.committed_ms !== null) {
      this.detail = { ...this.detail, committed_ms: Date.now() };
    }
    this.tick();
  }

  /* Called once a second, because ages grow. */
  tick() {
    if (this.detail) setText(this.words, inWords(this.detail));
  }
}

function fillRow(row, texts, name) {
  reconcile(row, texts, (_, at) => at, () => element(name), setText);
}

function inWords({ committed_ms: committedMs, close_ms: closeMs, definition, index, position }) {
  const words = [committedMs === null ? `Version ${number(position.version)}.`
    : `Last change ${age(Date.now() - committedMs)} ago.`];
  if (!["none", "versioned"].includes(definition.window.kind) && closeMs !== null && closeMs >= 0) {
    words.push(`Windows are final before ${clock(closeMs)} ${zoneName()}.`);
  }
  if (definition.emit === "window-close") words.push("The store has final windows only.");
  if (index.problem !== null) words.push(`Index: ${index.problem}.`);
  return words.join(" ");
}
