/* Numbers, times and units as people read them. */

const UNITS_OF_TIME = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000], ["ms", 1]];
const AGES = [
  ["year", 31557600000], ["day", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000],
];
/* The unit of an aggregate whose name ends with this word. */
const SUFFIXES = new Map(Object.entries({
  ms: "ms", s: "s", sec: "s", seconds: "s", min: "min", minutes: "min", hours: "h",
  bytes: "bytes", percent: "%", km: "km", miles: "miles", m: "m", kg: "kg",
  celsius: "°C", eur: "€", usd: "$",
}));

const integers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 17 });
const rounded = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const compact = new Intl.NumberFormat("en-US",
  { notation: "compact", maximumSignificantDigits: 4 });

export const DECIMALS_MAX = 9;

let zone = "utc";

/* Writes times in "utc" or "local" from now on. */
export function setZone(name) {
  zone = name;
}

export function zoneName() {
  return zone === "utc" ? "UTC" : "local time";
}

function inZone(timeMs) {
  const instant = new Date(Number(timeMs));
  if (Number.isNaN(instant.getTime()) || zone === "utc") return instant;
  return new Date(instant.getTime() - instant.getTimezoneOffset() * 60000);
}

/* 2013-01-01 10:00:00. Milliseconds only if they are not zero. */
export function time(timeMs) {
  const instant = inZone(timeMs);
  if (Number.isNaN(instant.getTime())) return String(timeMs);
  return instant.toISOString().replace("T", " ").replace("Z", "").replace(/\.000$/, "");
}

/* The same without milliseconds. */
export function clock(timeMs) {
  return time(Math.floor(Number(timeMs) / 1000) * 1000);
}

/* Two times. The second has no date if both are on the same day. */
export function span(fromMs, toMs) {
  const [from, to] = [time(fromMs), time(toMs)];
  const isSameDay = from.slice(0, 10) === to.slice(0, 10);
  return `${from} – ${isSameDay ? to.slice(11) : to}`;
}

/* The value of an <input type="datetime-local"> for a time, and the time for a value. */
export function inputTime(timeMs) {
  const instant = inZone(timeMs);
  return Number.isNaN(instant.getTime()) ? "" : instant.toISOString().slice(0, 19);
}

export function fromInput(text) {
  const ms = Date.parse(zone === "utc" ? `${text}Z` : text);
  return Number.isNaN(ms) ? null : ms;
}

/* 90 min, 1500 ms: in the largest unit without a fraction. */
export function duration(ms) {
  const [unit, size] = UNITS_OF_TIME.find(([, size]) => ms >= size && ms % size === 0) ?? ["ms", 1];
  return `${integers.format(ms / size)} ${unit}`;
}

/* 3 s, 12 min, 4 days: in one unit, rounded down. */
export function age(ms) {
  const [unit, size] = AGES.find(([, size]) => ms >= size) ?? ["s", 1000];
  const count = Math.max(0, Math.floor(ms / size));
  const plural = count !== 1 && unit.length > 3 ? "s" : "";
  return `${integers.format(count)} ${unit}${plural}`;
}

export function isNumber(value) {
  return typeof value === "number" || typeof value === "bigint";
}

/* All digits of an integer, four significant digits of a fraction, and no fewer than all digits
   before the decimal point. */
export function number(value) {
  if (typeof value === "bigint" || Number.isInteger(value)) return integers.format(value);
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e15) return String(Number(value.toPrecision(4)));
  return size >= 1000 ? integers.format(value) : rounded.format(value);
}

/* All digits. */
export function exactNumber(value) {
  if (typeof value === "bigint" || Number.isInteger(value)) return integers.format(value);
  return Math.abs(value) < 1e-4 || Math.abs(value) >= 1e15 ? String(value) : exact.format(value);
}

/* Short enough for the label of an axis or a tile. */
export function shortNumber(value) {
  return typeof value === "bigint" || Math.abs(value) >= 10000 ? compact.format(value)
    : number(value);
}

/* The value of an aggregate without a format of its own. */
export function value(content) {
  if (content === null || content === undefined) return "–";
  if (isNumber(content)) return number(content);
  if (typeof content === "object") {
    return JSON.stringify(content, (_, item) => (typeof item === "bigint" ? String(item) : item));
  }
  return String(content);
}

/* How a view writes an aggregate: its unit and its decimals (null: as `number`). `formats` are the
   formats of the address. The default unit of a count is records. Other aggregates have the unit
   that their name ends with. */
export function formatOf(aggregate, formats = []) {
  const words = aggregate.name.toLowerCase().split("_");
  let unit = /^count\(/.test(aggregate.function) ? "records" : "";
  if (words.length > 1) unit = SUFFIXES.get(words.at(-1)) ?? unit;
  const [, digits = "", ownUnit] = formats.map((text) => text.split(":"))
    .find(([name]) => name === aggregate.name) ?? [];
  const decimals = /^\d$/.test(digits) ? Number(digits) : null;
  return { name: aggregate.name, unit: ownUnit ?? unit, decimals };
}

/* An amount in its format. */
export function amount(content, { decimals, unit }, isUnitShown = true) {
  let text = value(content);
  if (isNumber(content) && decimals !== null) {
    text = Intl.NumberFormat("en-US",
      { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).format(content);
  }
  return isUnitShown && unit !== "" ? `${text} ${unit}` : text;
}

/* The kind of a store's windows in words. */
export function windowText({
  kind, size_ms: sizeMs, advance_ms: advanceMs, grace_ms: graceMs, step_ms: stepMs,
}) {
  if (stepMs) return `windows merged to ${duration(stepMs)}`;
  if (kind === "none") return "no windows, one row per key";
  if (kind === "versioned") return `versions, history ${duration(graceMs)}`;
  const shape = {
    hopping: () => `hopping, ${duration(sizeMs)} every ${duration(advanceMs)}`,
    sliding: () => `sliding, ${duration(sizeMs)} difference`,
    session: () => `sessions, ${duration(sizeMs)} gap`,
  }[kind]?.() ?? `${kind}, ${duration(sizeMs)}`;
  return `${shape}, grace ${duration(graceMs)}`;
}
