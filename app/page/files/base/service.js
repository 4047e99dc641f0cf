/* Requests to the service: paths from its own operations, tokens, 64-bit integers, problems. */

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

/* The path of an operation. A query parameter without a value is left out, a list is repeated. */
export function pathOf(operation, parameters = {}, query = {}) {
  if (parameters.key === "." || parameters.key === "..") {
    // Browsers resolve these two as steps of the path, even when they are written as %2E.
    throw new Problem("A browser can't request this key", "Use curl --path-as-is for it.");
  }
  const path = OPERATIONS[operation].path.replace(/{(\w+)}/g,
    (_, name) => encodeURIComponent(parameters[name]));
  const pairs = Object.entries(query)
    .flatMap(([name, value]) => [value].flat().map((item) => [name, item]))
    .filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(pairs).toString();
  return search ? `${path}?${search}` : path;
}

/* Where a stream starts after a response with this position. */
export function placeOf({ version, history }) {
  return `${version}-${history}`;
}

/* The response to a successful request.

   Throws a Problem with the code of the service, or with "unreachable" if nothing responds, and an
   AbortError if the signal ended the request. */
export async function request(path, { accept = "application/json", signal, body } = {}) {
  const headers = { Accept: accept };
  if (body) headers["Content-Type"] = "application/json";
  if (token()) headers.Authorization = `Bearer ${token()}`;
  let response;
  try {
    response = await fetch(path, { headers, signal, method: body ? "POST" : "GET",
      body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service can't be reached",
      "Check that oriel serve runs. The page tries again every second.", "unreachable");
  }
  if (response.ok) return response;
  throw await problemOf(response);
}

async function problemOf(response) {
  try {
    const { title, detail, code } = JSON.parse(await response.text());
    return new Problem(title, detail, code);
  } catch {
    return new Problem("The service can't be reached",
      `Another server responded with status ${response.status}.`, "unreachable");
  }
}

export async function get(path, options) {
  return parse(await (await request(path, options)).text());
}

/* 64-bit integers keep all digits: beyond 2^53 they become BigInt. */
export function parse(text) {
  // A look at each value takes ten times as long, and few responses have such integers.
  if (!/[:,[]-?\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (name, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source)
      ? BigInt(context.source) : value);
}
