/* Creates and changes elements. Every text is a text node or an attribute, so that no text becomes
   markup. What did not change stays untouched: focus and selected text survive. */

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svgElement(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/* A button that calls `onClick`. */
export function button(text, onClick, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onClick);
  return made;
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
  }
  const isShown = (child) => child !== null && child !== undefined && child !== false;
  node.append(...children.flat().filter(isShown)
    .map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/* Makes the children of a parent those of the items, in their order. A child stays with the key of
   its item and moves only if the order requires it. */
export function reconcile(parent, items, keyOf, make, update) {
  const kept = parent.reconciled ?? new Map();
  const now = new Map();
  let next = parent.firstElementChild;
  items.forEach((item, number) => {
    const key = keyOf(item, number);
    const child = kept.get(key) ?? make(item);
    update(child, item, number);
    now.set(key, child);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  });
  for (const [key, child] of kept) if (!now.has(key)) child.remove();
  parent.reconciled = now;
}

/* A list of names with their texts, such as counters. */
export function definitions(list, pairs) {
  reconcile(list, pairs, ([name]) => name,
    () => element("div", {}, element("dt"), element("dd")), (pair, [name, text]) => {
      setText(pair.firstChild, name);
      setText(pair.lastChild, text);
    });
}
