/* Which windows a view shows: from the choice in the address to the bounds of a request.

   The chart draws a window at one time, and a range is a range of these times. Overlapping windows
   (sliding, hopping) are drawn at their end, because they describe the time before it. Tumbling
   windows are drawn at their start. Sessions are bars from start to end, and a range contains the
   sessions that overlap it. */

import { pathOf } from "./service.js";

/* More windows than this are not drawn in one chart. */
export const DRAWN_MAX = 200000;
/* The most windows of one request (`limit`). */
export const REQUEST_ROWS = 10000;
export const RANGES = [
  ["newest-100", "Newest 100"], ["newest-1000", "Newest 1,000"], ["last-900000", "Last 15 min"],
  ["last-3600000", "Last hour"], ["last-21600000", "Last 6 hours"], ["last-86400000", "Last day"],
  ["last-604800000", "Last 7 days"], ["last-2592000000", "Last 30 days"], ["all", "All"],
];
export const DEFAULT_RANGE = "newest-100";

/* From the start of a window to the time at which the chart draws it, in ms. */
export function shiftOf({ kind, size_ms: sizeMs }) {
  return kind === "sliding" || kind === "hopping" ? sizeMs : 0;
}

/* The time at which the chart draws a window. */
export function instantOf(row, window) {
  return row.window_start_ms + shiftOf(window);
}

/* The latest time of the chart's axis that a window needs. */
export function endOf(row, window) {
  return shiftOf(window) > 0 ? instantOf(row, window) : row.window_end_ms;
}

/* Whether no record fell between a window and the next one. */
export function isGap(earlier, later, { kind, size_ms: sizeMs, advance_ms: advanceMs }) {
  if (kind === "sliding") return later.window_start_ms > earlier.window_end_ms;
  return later.window_start_ms > earlier.window_start_ms + (advanceMs ?? sizeMs);
}

/* The bounds of the chart's time, in ms, the most windows, and where the axis starts at the latest.
   A bound is null if there is none.
   The last window is the current one, unless later windows are requested. */
export function boundsOf(choice, window, current, drawnMax = DRAWN_MAX) {
  const isSession = window.kind === "session";
  const currentMs = isSession ? current.window_end_ms : instantOf(current, window);
  const [name, amount] = (choice.range ?? DEFAULT_RANGE).split("-");
  const hasTimes = choice.from !== undefined || choice.to !== undefined;
  const chosenTo = choice.to === undefined ? null : Number(choice.to);
  let [fromMs, toMs, count] = [null, chosenTo, drawnMax];
  if (!choice.later) toMs = Math.min(chosenTo ?? Infinity, currentMs);
  if (hasTimes) fromMs = choice.from === undefined ? null : Number(choice.from);
  else if (name === "last") fromMs = currentMs - Number(amount);
  else if (name === "newest") count = Math.min(Number(amount), drawnMax);
  const axisMs = fromMs;
  if (window.step_ms) {
    // `merged` returns the oldest ranges first. A step has at most one range, so the count is a
    // duration.
    const lastMs = floorTo(window.step_ms, toMs ?? currentMs);
    fromMs = Math.max(fromMs ?? -Infinity, lastMs - (count - 1) * window.step_ms);
  }
  return { fromMs, toMs, count, axisMs };
}

/* The start of the range that contains a time. */
export function floorTo(stepMs, ms) {
  return Math.floor(ms / stepMs) * stepMs;
}

/* The path that returns the windows of these bounds, the newest first, or their ranges, the oldest
   first. */
export function requestOf({ store, key, window, columns }, { fromMs, toMs }, limit, cursor = null) {
  const place = { store, key };
  const page = { limit, columns, cursor };
  if (window.kind === "session") {
    return pathOf("backwardFindSessions", place,
      { earliest_end_ms: fromMs, latest_start_ms: toMs, ...page });
  }
  if (window.step_ms) {
    return pathOf("merged", place,
      { from_ms: fromMs, to_ms: toMs, step_ms: window.step_ms, ...page });
  }
  const shift = shiftOf(window);
  const startOf = (ms) => ms === null ? null : ms - shift;
  return pathOf("backwardFetch", place, { from_ms: startOf(fromMs), to_ms: startOf(toMs), ...page });
}
