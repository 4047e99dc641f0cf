/* Numbers, times and units as people read them. */

const UNITS_OF_TIME = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000], ["ms", 1]];
const AGES = [
  ["year", 31557600000], ["day", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000],
];
/* An aggregate whose name ends so has that unit. */
const SUFFIXES = new Map(Object.entries({
  ms: "ms", s: "s", sec: "s", seconds: "s", min: "min", minutes: "min", hours: "h",
  bytes: "bytes", percent: "%", km: "km", miles: "miles", m: "m", kg: "kg",
  celsius: "°C", eur: "€", usd: "$",
}));

const integers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const decimals = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 7 });
const compact = new Intl.NumberFormat("en-US",
  { notation: "compact", maximumSignificantDigits: 4 });

let zone = "utc";

/* "utc" or "local": how times are written from now on. */
export function setZone(name) {
  zone = name;
}

export function zoneName() {
  return zone === "utc" ? "UTC" : "local time";
}

/* 2013-01-01 10:00:00, with milliseconds only where there are some. */
export function time(timeMs) {
  const instant = new Date(Number(timeMs));
  if (Number.isNaN(instant.getTime())) return String(timeMs);
  const shifted = zone === "utc" ? instant
    : new Date(instant.getTime() - instant.getTimezoneOffset() * 60000);
  return shifted.toISOString().replace("T", " ").replace("Z", "").replace(/\.000$/, "");
}

/* The same without milliseconds, where these do not tell windows apart. */
export function clock(timeMs) {
  return time(Math.floor(Number(timeMs) / 1000) * 1000);
}

/* Two times; the second without its date where that is the first one's. */
export function span(fromMs, toMs) {
  const [from, to] = [time(fromMs), time(toMs)];
  const isSameDay = from.slice(0, 10) === to.slice(0, 10);
  return `${from} – ${isSameDay ? to.slice(11) : to}`;
}

/* 90 min, 1500 ms: in the largest unit without a fraction. */
export function duration(ms) {
  const [unit, size] = UNITS_OF_TIME.find(([, size]) => ms >= size && ms % size === 0) ?? ["ms", 1];
  return `${integers.format(ms / size)} ${unit}`;
}

/* How long ago, in one unit: 3 s, 12 min, 4 days. */
export function age(ms) {
  const [unit, size] = AGES.find(([, size]) => ms >= size) ?? ["s", 1000];
  const count = Math.max(0, Math.floor(ms / size));
  const plural = count !== 1 && unit.length > 3 ? "s" : "";
  return `${integers.format(count)} ${unit}${plural}`;
}

export function isNumber(value) {
  return typeof value === "number" || typeof value === "bigint";
}

export function number(value) {
  if (typeof value === "bigint" || Number.isInteger(value)) return integers.format(value);
  const isTiny = value !== 0 && Math.abs(value) < 1e-4;
  return isTiny || Math.abs(value) >= 1e15 ? String(value) : decimals.format(value);
}

/* As short as the label of an axis or a tile must be. */
export function shortNumber(value) {
  if (typeof value === "bigint" || Math.abs(value) >= 10000) return compact.format(value);
  return brief(value);
}

/* A number that is read at a glance: of a fraction five digits. */
export function brief(value) {
  return Number.isInteger(value) || !Number.isFinite(value) || Math.abs(value) < 1e-4
    ? number(value) : number(Number(value.toPrecision(5)));
}

/* The value of an aggregate. */
export function value(content) {
  if (content === null || content === undefined) return "–";
  if (isNumber(content)) return number(content);
  if (typeof content === "object") {
    return JSON.stringify(content, (_, item) => (typeof item === "bigint" ? String(item) : item));
  }
  return String(content);
}

/* The unit of an aggregate: records of a count, else what its name ends with; "" if unknown. */
export function unitOf(aggregate) {
  if (/^count\(/.test(aggregate.function)) return "records";
  const words = aggregate.name.toLowerCase().split("_");
  return words.length > 1 ? SUFFIXES.get(words.at(-1)) ?? "" : "";
}

export function withUnit(text, unit) {
  return unit === "" ? text : `${text} ${unit}`;
}

/* What kind of windows a store has, in words. */
export function windowText({ kind, size_ms: sizeMs, advance_ms: advanceMs, grace_ms: graceMs }) {
  if (kind === "none") return "no windows, one row a key";
  const shape = {
    hopping: () => `hopping, ${duration(sizeMs)} every ${duration(advanceMs)}`,
    sliding: () => `sliding, ${duration(sizeMs)} difference`,
    session: () => `sessions, ${duration(sizeMs)} gap`,
  }[kind]?.() ?? `${kind}, ${duration(sizeMs)}`;
  return `${shape}, grace ${duration(graceMs)}`;
}
