/* The columns that uPlot draws, from the windows of one key and one aggregate.

   Each function returns [seconds, final values, open values, least, greatest]. In uPlot's columns,
   null ends a line and undefined does not. */

import { endOf, instantOf, isGap, shiftOf } from "../base/range.js";

/* If a chart has more windows per pixel, its lines show means of several windows. */
const WINDOWS_PER_PIXEL = 1.5;
const PIXELS_PER_MEAN = 2;

export function isCondensed(rows, width, kind) {
  return kind !== "session" && rows.length > WINDOWS_PER_PIXEL * width;
}

function amountOf(row, name) {
  const content = row[name];
  return content === null || content === undefined ? null : Number(content);
}

/* Each window as a point, or as a step of a tumbling window from its start to its end. `shiftMs`
   moves the windows on the axis of time. */
export function pointColumns(rows, name, window, shiftMs = 0) {
  const columns = [[], [], [], [], []];
  const push = (ms, final, open) => {
    // uPlot needs times that ascend. A window of 1 ms has no step.
    const seconds = (ms + shiftMs) / 1000;
    if (columns[0].length > 0 && seconds <= columns[0].at(-1)) return;
    [seconds, final, open, undefined, undefined].forEach((item, at) => columns[at].push(item));
  };
  const isSession = window.kind === "session";
  const endStep = (row) => {
    if (window.kind !== "tumbling") return;
    const amount = amountOf(row, name);
    push(endOf(row, window) - 1, row.final ? amount : null, row.final ? null : amount);
  };
  rows.forEach((row, number) => {
    const before = rows[number - 1];
    const ms = instantOf(row, window);
    const isAfterGap = before !== undefined && !isSession && isGap(before, row, window);
    if (isAfterGap) {
      endStep(before);
      push(((columns[0].at(-1) * 1000 - shiftMs) + ms) / 2, null, null);
    }
    const amount = amountOf(row, name);
    // The first open window also ends the line of the final ones.
    const isFirstOpen = !isSession && !row.final && before?.final === true && !isAfterGap;
    push(ms, row.final || isFirstOpen ? amount : null, row.final ? null : amount);
  });
  if (rows.length > 0) endStep(rows.at(-1));
  return columns;
}

/* Means of the windows in each stretch of a few pixels, with the least and greatest value. */
export function meanColumns(rows, name, window, width, shiftMs = 0) {
  const columns = [[], [], [], [], []];
  const places = Math.max(1, Math.floor(width / PIXELS_PER_MEAN));
  const firstMs = instantOf(rows[0], window);
  const stepMs = (instantOf(rows.at(-1), window) - firstMs) / places || 1;
  let at = 0;
  let wasOpen = null;
  for (let place = 0; place < places && at < rows.length; place += 1) {
    const endMs = place === places - 1 ? Infinity : firstMs + (place + 1) * stepMs;
    let [sum, count, least, greatest, isOpen, isBroken] = [0, 0, Infinity, -Infinity, false, false];
    for (; at < rows.length && instantOf(rows[at], window) < endMs; at += 1) {
      if (at > 0 && isGap(rows[at - 1], rows[at], window)) isBroken = true;
      if (!rows[at].final) isOpen = true;
      const amount = amountOf(rows[at], name);
      if (amount === null) continue;
      [sum, count] = [sum + amount, count + 1];
      [least, greatest] = [Math.min(least, amount), Math.max(greatest, amount)];
    }
    const seconds = (firstMs + (place + 0.5) * stepMs + shiftMs) / 1000;
    if (isBroken) {
      [seconds - stepMs / 2000, null, null, null, null].forEach((item, i) => columns[i].push(item));
    }
    if (count === 0) continue;
    const mean = sum / count;
    const isFirstOpen = isOpen && wasOpen === false && !isBroken;
    [seconds, isOpen && !isFirstOpen ? null : mean, isOpen ? mean : null, least, greatest]
      .forEach((item, i) => columns[i].push(item));
    wasOpen = isOpen;
  }
  return columns;
}

/* The window nearest to a time; null if there is none. Sessions that contain it come first. */
export function nearest(rows, ms, window) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (instantOf(rows[middle], window) <= ms) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [rows[low - 1] ?? null, rows[low] ?? null];
  if (before === null || after === null) return before ?? after;
  // A step or a bar reaches from its start to its end.
  const beforeMs = shiftOf(window) > 0 ? instantOf(before, window)
    : Math.min(ms, before.window_end_ms);
  return ms - beforeMs <= instantOf(after, window) - ms ? before : after;
}
