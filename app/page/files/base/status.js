/* What the pipelines report, in words. */

import { age, clock, number, shortNumber } from "./formats.js";
import { get, pathOf } from "./service.js";

/* The response of `/v1/status`; null if the token does not grant access to it. */
export async function readStatus() {
  try {
    return await get(pathOf("status"));
  } catch (error) {
    if (error.code === "forbidden") return null;
    throw error;
  }
}

/* A pipeline that runs can have a problem also: its log does not respond. */
export function isWell(pipeline) {
  return pipeline.problem === null;
}

/* How much of its log a pipeline or store has not read, such as "12 records". */
export function lagText({ lag }, unit) {
  if (lag === null) return "unknown";
  return lag === 0 ? "none" : `${number(lag)} ${unit}`;
}

export function logEndText({ log_end_ms: logEndMs }, nowMs) {
  return logEndMs === null ? "log end unknown" : `log end read ${age(nowMs - logEndMs)} ago`;
}

export function rateText({ records_per_second: rate }) {
  return rate === null ? "–" : shortNumber(rate);
}

/* Which partition keeps windows open, with its stream time. */
export function heldText({ held_by: held }) {
  if (held === null) return "–";
  const place = `${held.topic} ${held.partition ?? ""}`.trim();
  return held.stream_time_ms === null ? `${place}, which has no record`
    : `${place}, at ${clock(held.stream_time_ms)}`;
}
