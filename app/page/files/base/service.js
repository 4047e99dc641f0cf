/* Asking the service: paths out of its own operations, tokens, 64-bit integers, problems. */

import { OPERATIONS } from "../operations.js";

const TOKEN_HERE = "oriel-token";

class Problem extends Error {
  constructor(title, detail, code = "") {
    super(detail);
    this.title = title;
    this.code = code;
  }
}

export function token() {
  return sessionStorage.getItem(TOKEN_HERE);
}

export function setToken(text) {
  sessionStorage.setItem(TOKEN_HERE, text);
}

export function fits(operation, kind) {
  return OPERATIONS[operation].storeKinds.includes(kind);
}

/* The path of an operation; a parameter of the query that is null is left out. */
export function pathOf(operation, parameters = {}, query = {}) {
  if (parameters.key === "." || parameters.key === "..") {
    // Browsers take these two for steps in the path, even when written as %2E.
    throw new Problem("A browser can't ask for this key", "Use curl --path-as-is for it.");
  }
  const path = OPERATIONS[operation].path.replace(/{(\w+)}/g,
    (_, name) => encodeURIComponent(parameters[name]));
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(given).toString();
  return search ? `${path}?${search}` : path;
}

/* The answer to a request that went well.

   Throws a Problem with the service's own code, "unreachable" where nothing answers; an
   AbortError where the signal ended it. */
export async function ask(path, { accept = "application/json", signal } = {}) {
  const headers = { Accept: accept };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  let answer;
  try {
    answer = await fetch(path, { headers, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service can't be reached", "The page goes on asking.", "unreachable");
  }
  if (answer.ok) return answer;
  throw await problemOf(answer);
}

async function problemOf(answer) {
  try {
    const { title, detail, code } = JSON.parse(await answer.text());
    return new Problem(title, detail, code);
  } catch {
    return new Problem("The service is not there", `Something else answered ${answer.status}.`);
  }
}

export async function get(path, options) {
  return parse(await (await ask(path, options)).text());
}

/* 64-bit integers keep all digits: beyond 2^53 they become BigInt. */
export function parse(text) {
  // Looking at each value takes ten times as long, and few answers have such integers.
  if (!/[:,[]-?\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (name, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source)
      ? BigInt(context.source) : value);
}
