/* What is shown stands in the address, behind the #, so that each view is a link.

   view    overview | wall | store | letters; a store without a view is its page
   store, key, aggregate
   range   newest-100 (windows), last-3600000 (ms before the newest window's end), all
   from, to  a span in ms, instead of a range
   prefix, sort  of the wall;  reason  of dead letters */

export function read() {
  const choice = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  return { view: choice.store === undefined ? "overview" : "store", ...choice };
}

/* The link to a choice; what is null is left out. */
export function link(choice) {
  const given = Object.entries(choice).filter(([, value]) => value !== null && value !== undefined);
  return `#${new URLSearchParams(given)}`;
}

/* Changes the choice as a step that the browser's back button takes back. */
export function go(changes) {
  location.hash = link({ ...read(), ...changes });
}

/* Completes the choice, without a step and without a new view. */
export function complete(changes) {
  history.replaceState(null, "", link({ ...read(), ...changes }));
}
