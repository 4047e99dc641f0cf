/* What windows, sessions and rows are, and the windows of a key as far as they were read. */

import { get, pathOf } from "./service.js";

/* More in one page would hold up the frame in which it is read. */
const PAGE_ROWS = 5000;
const NUMBER_TYPES = /^(byte|short|integer|long|float|double|decimal)/;

export function numericAggregates(definition) {
  return definition.aggregates.filter((aggregate) => NUMBER_TYPES.test(aggregate.type));
}

export function nounOf(kind, count = 2) {
  const noun = { none: "row", session: "session" }[kind] ?? "window";
  return count === 1 ? noun : `${noun}s`;
}

/* Where a window stands on the axis of time. A sliding window says what counts at its end. */
export function instantOf(row, kind) {
  return kind === "sliding" ? row.window_end_ms : row.window_start_ms;
}

/* Whether nothing was recorded between a window and the next one. */
export function isGap(earlier, later, { kind, size_ms: sizeMs, advance_ms: advanceMs }) {
  if (kind === "sliding") return later.window_start_ms > earlier.window_end_ms;
  return later.window_start_ms > earlier.window_start_ms + (advanceMs ?? sizeMs);
}

export function idOf(row) {
  return `${row.window_start_ms}/${row.window_end_ms}`;
}

/* The windows of a key, newest first, as one stretch from the newest (or from toMs) backwards.

   Pages lengthen it, events of the store change it; both keep its order. */
export class History {
  constructor(store, key, toMs = null) {
    this.place = { store, key };
    this.toMs = toMs;
    this.rows = [];
    this.cursor = null;
    this.version = -1;
    this.isWhole = false;
    this.loading = null;
  }

  /* Reads the next page; who asks while it is read waits for the same. */
  more(limit) {
    this.loading ??= this.read(limit).finally(() => { this.loading = null; });
    return this.loading;
  }

  async read(limit) {
    if (this.isWhole) return;
    const query = { limit, to_ms: this.toMs, cursor: this.cursor };
    const page = await get(pathOf("backwardFetch", this.place, query));
    // Behind it, or behind the last event, changes are to be followed.
    if (this.version < 0) this.version = page.position.version;
    this.merge(page.windows);
    this.cursor = page.next_cursor;
    this.isWhole = page.next_cursor === null;
  }

  /* Reads pages until they reach back to a time, or so many windows are there. */
  async reach(fromMs, count, onPage = () => {}) {
    const isThere = () => this.isWhole || this.rows.length >= count
      || (this.rows.length > 0 && this.rows.at(-1).window_start_ms < fromMs);
    while (!isThere()) {
      await this.more(Math.min(count - this.rows.length, PAGE_ROWS));
      onPage(this.rows.length);
    }
  }

  /* Takes a change of the store; what lies behind the end of the stretch comes with its page.

     A page under way comes first: it may be of an older version than the change, while changes
     in their order always end at the newest. */
  async apply({ position, windows = [], removed = [] }) {
    await this.loading;
    // More of the same version may follow; to take it twice does no harm.
    this.version = Math.max(this.version, position.version - 1);
    const isOurs = (row) => row.key === this.place.key
      && (this.toMs === null || row.window_start_ms <= this.toMs)
      && (this.isWhole || this.rows.length === 0 || isNewer(row, this.rows.at(-1)));
    const gone = new Set(removed.filter((row) => row.key === this.place.key).map(idOf));
    if (gone.size > 0) this.rows = this.rows.filter((row) => !gone.has(idOf(row)));
    this.merge(windows.filter(isOurs));
  }

  merge(rows) {
    for (const row of rows) {
      const at = this.indexOf(row);
      const isThere = at < this.rows.length && idOf(this.rows[at]) === idOf(row);
      this.rows.splice(at, isThere ? 1 : 0, row);
    }
  }

  /* Where a row stands, or belongs. */
  indexOf(row) {
    let [low, high] = [0, this.rows.length];
    // Pages come in order, so most rows belong to the end.
    if (high > 0 && isNewer(this.rows[high - 1], row)) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isNewer(this.rows[middle], row)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isNewer(row, other) {
  return row.window_start_ms > other.window_start_ms
    || (row.window_start_ms === other.window_start_ms && row.window_end_ms > other.window_end_ms);
}

/* The window of a key that ends at its newest record, which is what is shown as the newest; null
   where there is none any more. */
export async function currentOf(store, key) {
  try {
    return (await get(pathOf("current", { store, key }))).windows[0];
  } catch (error) {
    if (error.code === "window-not-found") return null;
    throw error;
  }
}
