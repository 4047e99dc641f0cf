/* A labeled box of choices. */

import { element, reconcile, setText } from "../base/dom.js";

export function select(id, title, onChange) {
  const box = element("select", { id });
  box.addEventListener("change", () => onChange(box.value));
  return {
    label: element("label", {}, title, box),
    show(choices, chosen) {
      reconcile(box, choices, ([name]) => name, () => element("option"), (option, [name, text]) => {
        option.value = name;
        setText(option, text);
      });
      if (chosen !== undefined && box.value !== chosen) box.value = chosen;
      box.parentElement.hidden = choices.length === 0;
    },
  };
}
