/* A typed client of Oriel's HTTP API. The types of paths, parameters and responses are in schema.ts,
   which `npm run generate` writes from the OpenAPI document. */

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

export type { components, operations, paths } from "./schema.js";

type Schemas = components["schemas"];

export type Position = Schemas["Position"];
export type Problem = Schemas["Problem"];
/** A window with times in ms. Its aggregates are further fields. */
export type Window = Schemas["Window"];
/** A row of a store without windows. Its aggregates are further fields. */
export type Row = Schemas["Row"];

export interface Options {
  /** A bearer token, or a function that returns the current token. */
  token?: string | (() => string | Promise<string>);
  /** Another `fetch`, for example with a proxy. */
  fetch?: (request: Request) => Promise<Response>;
}

/** The service returned an error. Programs use `code`. */
export class OrielProblem extends Error {
  readonly code: string;
  readonly status: number;

  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "OrielProblem";
    this.code = problem.code;
    this.status = problem.status;
  }
}

/** Return a client of the service at this address, for example `http://127.0.0.1:8080`. */
export function oriel(baseUrl: string, options: Options = {}): Client<paths> {
  // The service reads a repeated parameter, for example min_offset, from several pairs.
  const client = createClient<paths>({
    baseUrl,
    fetch: options.fetch,
    querySerializer: { array: { style: "form", explode: true } },
  });
  const { token } = options;
  if (token !== undefined) {
    client.use({
      async onRequest({ request }) {
        const current = typeof token === "string" ? token : await token();
        request.headers.set("Authorization", `Bearer ${current}`);
        return request;
      },
    });
  }
  return client;
}

/** Return the data of a response, or throw the problem of the service as `OrielProblem`. */
export async function unwrap<Data>(
  response: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response: received } = await response;
  if (data !== undefined) return data;
  if (isProblem(error)) throw new OrielProblem(error);
  throw new Error(`${received.url}: status ${received.status} is not a response of Oriel`);
}

/** Yield every page of a read. `read` gets the cursor of the page, undefined for the first one. */
export async function* pages<Page extends { next_cursor: string | null }>(
  read: (cursor: string | undefined) => Promise<{ data?: Page; error?: unknown; response: Response }>,
): AsyncGenerator<Page, void, void> {
  let cursor: string | undefined;
  do {
    const page = await unwrap(read(cursor));
    yield page;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "code" in error && "detail" in error;
}
