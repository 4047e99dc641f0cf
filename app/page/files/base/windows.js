/* What windows, sessions and rows are, and the windows of a key that a view shows. */

import {
  boundsOf, DRAWN_MAX, endOf, floorTo, instantOf, requestOf, REQUEST_ROWS, shiftOf,
} from "./range.js";
import { get, pathOf, placeOf } from "./service.js";

/* A longer page would take too much of a frame to read. */
const PAGE_ROWS = 5000;
const NUMBER_TYPES = /^(byte|short|integer|long|float|double|decimal)/;

export function numericAggregates(definition) {
  return definition.aggregates.filter((aggregate) => NUMBER_TYPES.test(aggregate.type));
}

export function nounOf(kind, count = 2) {
  const noun = { none: "row", versioned: "row", session: "session" }[kind] ?? "window";
  return count === 1 ? noun : `${noun}s`;
}

export function idOf(row) {
  return `${row.key}/${row.window_start_ms}/${row.window_end_ms}`;
}

/* The windows of one key in the range of a choice, oldest first. */
export class KeyWindows {
  constructor(store, key, window, columns = null) {
    this.place = { store, key, window, columns };
    this.rows = [];
    this.current = null;
    this.bounds = null;
    /* Whether the range contains more windows than were read. */
    this.isCut = false;
  }

  /* Reads all windows of the range. onPage(count) is called with the windows read so far. */
  async read(choice, drawnMax, current, onPage = () => {}) {
    this.use(current, choice, drawnMax);
    if (current === null) this.rows = [];
    else await this.readRange(this.bounds, onPage);
  }

  /* Takes over a new current window, and reads again what starts at or after a time. No older
     window changed. isWhole: the current window has all aggregates. */
  async refresh(choice, drawnMax, current, changedFromMs, isWhole) {
    const before = this.bounds;
    this.use(current, choice, drawnMax);
    if (current === null || before === null) {
      await this.read(choice, drawnMax, current);
      return;
    }
    const { window } = this.place;
    const isOnlyChange = window.kind === "tumbling" && !window.step_ms
      && changedFromMs === current.window_start_ms;
    if (isWhole && isOnlyChange) {
      this.replaceNewest(current);
      return;
    }
    const isSession = window.kind === "session";
    // Windows after the former bound did not belong to the range.
    const unknownMs = before.toMs === null ? Infinity : before.toMs - shiftOf(window) + 1;
    let fromMs = isSession ? changedFromMs : Math.min(changedFromMs, unknownMs);
    if (window.step_ms) fromMs = floorTo(window.step_ms, fromMs);
    if (this.isCut) fromMs = Math.max(fromMs, this.rows[0]?.window_start_ms ?? 0);
    const part = new KeyWindows(...Object.values(this.place));
    const fromChartMs = Math.max(fromMs + shiftOf(window), this.bounds.fromMs ?? -Infinity);
    const { toMs } = this.bounds;
    if (fromChartMs <= (toMs ?? Infinity)) {
      await part.readRange({ fromMs: fromChartMs, toMs, count: drawnMax });
    }
    const edgeOf = (row) => isSession ? row.window_end_ms : row.window_start_ms;
    const rows = [...this.rows.filter((row) => edgeOf(row) < fromMs), ...part.rows];
    // A removed window makes room for an older one.
    const isShort = this.isCut && rows.length < this.rows.length;
    this.rows = rows;
    if (isShort) await this.readRange(this.bounds);
    else this.trim();
  }

  /* Takes over the newest window without a request. */
  replaceNewest(current) {
    const startMs = current.window_start_ms;
    this.rows = this.rows.filter((row) => row.window_start_ms < startMs);
    const { fromMs, toMs } = this.bounds;
    if (startMs >= (fromMs ?? -Infinity) && startMs <= (toMs ?? Infinity)) this.rows.push(current);
    this.trim();
  }

  use(current, choice, drawnMax) {
    this.current = current;
    this.bounds = current === null ? null
      : boundsOf(choice, this.place.window, current, drawnMax);
  }

  /* Removes the windows that the range no longer contains, and those above its count. */
  trim() {
    const { fromMs, count } = this.bounds;
    const { window } = this.place;
    const timeOf = (row) => window.kind === "session" ? row.window_end_ms
      : instantOf(row, window);
    if (fromMs !== null) this.rows = this.rows.filter((row) => timeOf(row) >= fromMs);
    if (this.rows.length > count) {
      this.rows = this.rows.slice(-count);
      this.isCut = true;
    }
  }

  async readRange(bounds, onPage = () => {}) {
    const rows = [];
    let cursor = null;
    do {
      const limit = Math.min(bounds.count - rows.length, PAGE_ROWS);
      const page = await get(requestOf(this.place, bounds, limit, cursor));
      rows.push(...page.windows);
      cursor = page.next_cursor;
      onPage(rows.length);
    } while (cursor !== null && rows.length < bounds.count);
    this.isCut = cursor !== null;
    this.rows = this.place.window.step_ms ? rows : rows.reverse();
  }

  /* The paths that return exactly these windows, with all columns that they can have. After the first page of more
     than REQUEST_ROWS windows, `cursor` continues. */
  request() {
    const { place, bounds } = this;
    if (bounds === null) return pathOf("backwardFetch", { store: place.store, key: place.key });
    const limit = Math.max(1, Math.min(bounds.count, REQUEST_ROWS));
    const columns = place.window.step_ms ? place.columns : null;
    return requestOf({ ...place, columns }, bounds, limit);
  }
}

/* What a choice reads. Two choices of the same text show the same windows. */
export function readsOf(choice, definition, columns) {
  const { store, keys, range, from, to, later, compare } = choice;
  return JSON.stringify([store, keys, range, from, to, later, compare, definition, columns]);
}

/* The windows of all keys of a choice, and those of an earlier time to compare the first key with. */
export class Selection {
  constructor(choice, definition, columns = null) {
    this.reads = readsOf(choice, definition, columns);
    this.choice = choice;
    this.definition = definition;
    this.drawnMax = Math.floor(DRAWN_MAX / choice.keys.length);
    this.keys = choice.keys.map((key) =>
      new KeyWindows(choice.store, key, definition.window, columns));
    this.earlier = null;
    /* The version that was read, or the id of the last event: changes follow after it. */
    this.after = null;
    /* Whether the current windows have only some of the aggregates. */
    this.isPartial = false;
  }

  async read(onPage) {
    const { currents, after } = await this.readCurrents();
    this.after = after;
    let before = 0;
    for (const windows of this.keys) {
      const current = currents.get(windows.place.key) ?? null;
      await windows.read(this.choice, this.drawnMax, current, (count) => onPage?.(before + count));
      before += windows.rows.length;
    }
    await this.readEarlier();
  }

  /* The current window of each key, by key, all from one version. */
  async readCurrents() {
    const { store, keys } = this.choice;
    const path = pathOf("currentOfKeys", { store }, { columns: this.columns });
    const { windows, position } = await get(path, { body: keys });
    return { currents: new Map(windows.map((row) => [row.key, row])), after: placeOf(position) };
  }

  /* Reads the current windows again if an event had only the aggregates drawn at that time. */
  async completeCurrents() {
    if (!this.isPartial) return;
    const { currents } = await this.readCurrents();
    this.keys.forEach((windows) => { windows.current = currents.get(windows.place.key) ?? null; });
    this.isPartial = false;
  }

  /* Takes one event of the stream `watch?current=true`. */
  async apply({ windows, removed, changed_from_ms: changedFromMs }, id) {
    const currents = new Map(windows.map((row) => [row.key, row]));
    removed.forEach((row) => currents.set(row.key, null));
    const { aggregates } = this.definition;
    const isWhole = windows.every((row) => aggregates.every(({ name }) => name in row));
    for (const windows of this.keys) {
      const current = currents.get(windows.place.key);
      if (current === undefined) continue;
      await windows.refresh(this.choice, this.drawnMax, current, changedFromMs, isWhole);
    }
    this.after = id;
    this.isPartial ||= !isWhole;
    await this.readEarlier();
  }

  /* Reads the windows of the earlier time, if that time has changed. */
  async readEarlier() {
    const earlierMs = Number(this.choice.compare ?? 0);
    const [first] = this.keys;
    if (earlierMs === 0 || first === undefined || first.rows.length === 0) {
      this.earlier = null;
      this.earlierFor = null;
      return;
    }
    const { window } = this.definition;
    const fromMs = (first.bounds.fromMs ?? instantOf(first.rows[0], window)) - earlierMs;
    const lastMs = endOf(first.rows.at(-1), window);
    const toMs = Math.min(first.bounds.toMs ?? Infinity, lastMs) - earlierMs;
    const wanted = `${first.place.key} ${fromMs} ${toMs}`;
    if (wanted === this.earlierFor) return;
    const earlier = new KeyWindows(...Object.values(first.place));
    earlier.bounds = { fromMs, toMs, count: this.drawnMax };
    await earlier.readRange(earlier.bounds);
    this.earlier = earlier;
    this.earlierFor = wanted;
  }

  /* The windows of all keys, the newest first. */
  newestFirst() {
    const rows = this.keys.flatMap((windows) => windows.rows.toReversed());
    if (this.keys.length < 2) return rows;
    return rows.sort((a, b) => b.window_start_ms - a.window_start_ms
      || b.window_end_ms - a.window_end_ms || (a.key < b.key ? -1 : 1));
  }
}
