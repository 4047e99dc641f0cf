/* Merged windows: the steps that a view offers, and what it then shows.

   A step makes the chart read `merged`, whose ranges have the fields of a window. So everything
   else sees tumbling windows of the step, whose definition also has `step_ms`. */

import { duration } from "./formats.js";

const STEPS_MS = [1000, 10000, 60000, 600000, 3600000, 21600000, 86400000, 604800000];
/* The most windows of a range. */
const WINDOWS_MAX = 10000;
/* A list with more steps would be harder to read. */
const OFFERED = 4;

/* The choices of a select, as [step in ms, text]. None if the store cannot be merged. */
export function stepsOf({ definition, mergeable }, step) {
  if (mergeable.length === 0) return [];
  const sizeMs = definition.window.size_ms;
  const round = STEPS_MS.filter((ms) =>
    ms > sizeMs && ms % sizeMs === 0 && ms <= WINDOWS_MAX * sizeMs).slice(0, OFFERED);
  const steps = round.length > 0 ? round : [10 * sizeMs, 100 * sizeMs];
  if (step !== undefined && !steps.includes(Number(step))) steps.unshift(Number(step));
  return [["", "Each window"], ...steps.map((ms) => [String(ms), duration(ms)])];
}

/* The definition of what a choice shows: of the store's windows, or of ranges of its step. */
export function shownDefinition({ step }, { definition, mergeable }) {
  if (step === undefined || mergeable.length === 0) return definition;
  const stepMs = Number(step);
  return {
    ...definition,
    aggregates: definition.aggregates.filter(({ name }) => mergeable.includes(name)),
    window: { ...definition.window, size_ms: stepMs, step_ms: stepMs },
  };
}

/* The aggregates that a request must name, null: all. Ranges cannot have the other aggregates. */
export function columnsOf({ window, aggregates }, chosen = []) {
  if (window.step_ms === undefined) return chosen.join(",") || null;
  const names = aggregates.map(({ name }) => name);
  const known = chosen.filter((name) => names.includes(name));
  return (known.length > 0 ? known : names).join(",");
}
