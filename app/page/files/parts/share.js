/* What is shown, for elsewhere: the request as a curl line, and its answer as a file. */

import { element, setText } from "../base/dom.js";
import { ask, token } from "../base/service.js";

const FORMS = [
  ["CSV", "text/csv", "csv"],
  ["Arrow", "application/vnd.apache.arrow.stream", "arrows"],
];

export class Share {
  /* onProblem(error) is told why a file could not be had. */
  constructor(onProblem) {
    this.line = element("code", { tabindex: 0, role: "textbox", "aria-readonly": "true",
      "aria-label": "The request as a curl line" });
    this.told = element("span", { role: "status", class: "note" });
    const copy = element("button", { type: "button" }, "Copy");
    copy.addEventListener("click", () => this.copy());
    const downloads = FORMS.map(([name, accept, ending]) => {
      const button = element("button", { type: "button" }, `Save ${name}`);
      button.addEventListener("click", () => this.save(accept, ending).catch(onProblem));
      return button;
    });
    this.node = element("div", { class: "share" }, this.line,
      element("div", { class: "row" }, copy, ...downloads, this.told));
  }

  /* path is the request; name that of the file, without its ending. */
  show(path, name) {
    this.path = path;
    this.name = name;
    const header = token() ? " -H \"Authorization: Bearer $ORIEL_TOKEN\"" : "";
    setText(this.line, `curl${header} ${quoted(location.origin + path)}`);
  }

  async copy() {
    const isCopied = await navigator.clipboard?.writeText(this.line.textContent)
      .then(() => true, () => false);
    if (!isCopied) getSelection().selectAllChildren(this.line);
    setText(this.told, isCopied ? "Copied." : "Selected: copy it with the keyboard.");
  }

  async save(accept, ending) {
    const answer = await ask(this.path, { accept });
    const address = URL.createObjectURL(await answer.blob());
    const anchor = element("a", { href: address, download: `${this.name}.${ending}` });
    anchor.click();
    URL.revokeObjectURL(address);
    const count = Number(answer.headers.get("oriel-items")).toLocaleString("en-US");
    const isCut = answer.headers.has("oriel-next-cursor");
    setText(this.told, `Saved ${count}${isCut ? ", the most of one request" : ""}.`);
  }
}

/* A word of a POSIX shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
