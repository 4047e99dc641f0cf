/* Writes schema.ts, the types of all operations, from the OpenAPI document of the service.

   The document has each problem of an operation with examples. Here, every error has the type
   Problem, whose code is a string, so that the file stays small. */

import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const [document = "../../openapi/oriel.json", output = "schema.ts"] = process.argv.slice(2);
const api = JSON.parse(await readFile(document, "utf8"));
const problem = {
  description: "A problem",
  content: {
    "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } },
  },
};
for (const operation of Object.values(api.paths).flatMap(Object.values)) {
  const success = operation.responses["200"];
  const { "application/json": json } = success.content;
  // Other formats are read as text or bytes (`parseAs`), so only JSON has a type.
  if (json) success.content = { "application/json": { schema: json.schema } };
  operation.responses = { 200: success, default: problem };
}
delete api.components.responses;
const types = astToString(await openapiTS(api));
const note = "/* Written by `npm run generate`. */\n\n";
await writeFile(output, note + types.replaceAll(/[ \t]+$/gm, ""));
