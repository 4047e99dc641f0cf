/* The request of a view as a curl line, and its response as a file. */

import { button, element, setText } from "../base/dom.js";
import { REQUEST_ROWS } from "../base/range.js";
import { request, token } from "../base/service.js";

const FORMS = [
  ["CSV", "text/csv", "csv"],
  ["Arrow", "application/vnd.apache.arrow.stream", "arrows"],
];

export class Share {
  /* onProblem(error) receives why a file could not be saved. */
  constructor(onProblem) {
    this.line = element("code", { tabindex: 0, role: "textbox", "aria-readonly": "true",
      "aria-label": "Request as a curl line" });
    this.said = element("span", { role: "status", class: "note" });
    const downloads = FORMS.map(([name, accept, ending]) =>
      button(`Save ${name}`, () => this.save(accept, ending).catch(onProblem)));
    this.node = element("div", { class: "share" }, this.line,
      element("div", { class: "row" }, button("Copy", () => this.copy()), ...downloads, this.said));
  }

  /* paths are the requests, names those of their files without an ending. */
  show(paths, names) {
    Object.assign(this, { paths, names });
    const header = token() ? " -H \"Authorization: Bearer $ORIEL_TOKEN\"" : "";
    setText(this.line,
      `curl${header} ${paths.map((path) => quoted(location.origin + path)).join(" ")}`);
  }

  async copy() {
    const isCopied = await navigator.clipboard?.writeText(this.line.textContent)
      .then(() => true, () => false);
    if (!isCopied) getSelection().selectAllChildren(this.line);
    setText(this.said, isCopied ? "Copied" : "Selected. Copy it with the keyboard.");
  }

  async save(accept, ending) {
    let [count, isCut] = [0, false];
    for (const [at, path] of this.paths.entries()) {
      const response = await request(path, { accept });
      const address = URL.createObjectURL(await response.blob());
      element("a", { href: address, download: `${this.names[at]}.${ending}` }).click();
      URL.revokeObjectURL(address);
      count += Number(response.headers.get("oriel-items"));
      isCut ||= Number(response.headers.get("oriel-items")) === REQUEST_ROWS
        && response.headers.has("oriel-next-cursor");
    }
    setText(this.said, `Saved ${count.toLocaleString("en-US")}`
      + `${isCut ? ", the most of one request" : ""}.`);
  }
}

/* A word of a POSIX shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
