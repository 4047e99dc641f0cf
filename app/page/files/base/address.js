/* The address contains every choice after the #, so that each view is a link.

   view        overview | store | wall | board | letters. Default: store if a store is named
   store, key  key is repeatable; so are aggregate, format and chart
   aggregate   names of aggregates
   range       newest-100 (windows), last-3600000 (ms up to the current window), all
   from, to    bounds in ms instead of a range, by the time at which the chart draws a window
   step        ms: merge tumbling windows to ranges of this length
   later       1: also windows after the current one
   compare     ms: draw the windows of that much earlier as well
   threshold   a value that the chart marks
   axis        fit: the value axis does not start at zero
   format      NAME:DECIMALS:UNIT of an aggregate, each part can be empty
   prefix, sort, where, top     wall;   search   overview;   reason   dead letters
   title, chart     board: a chart is the address of a store's view */

const LISTS = { key: "keys", aggregate: "aggregates", format: "formats", chart: "charts" };

export function read(text = location.hash.slice(1)) {
  const choice = { keys: [], aggregates: [], formats: [], charts: [] };
  for (const [name, value] of new URLSearchParams(text)) {
    if (LISTS[name]) choice[LISTS[name]].push(value);
    else choice[name] = value;
  }
  choice.keys = [...new Set(choice.keys)];
  const first = choice.store === undefined ? "overview" : "store";
  const isOfStore = choice.view === "store" || choice.view === "wall";
  choice.view = isOfStore && choice.store === undefined ? first : choice.view ?? first;
  return choice;
}

/* A choice as text. Names without a value are left out. */
export function write(choice) {
  const query = new URLSearchParams();
  const nameOf = Object.fromEntries(Object.entries(LISTS).map(([one, many]) => [many, one]));
  for (const [name, value] of Object.entries(choice)) {
    if (nameOf[name]) value.forEach((item) => query.append(nameOf[name], item));
    else if (value !== null && value !== undefined) query.set(name, value);
  }
  return query.toString();
}

export function link(choice) {
  return `#${write(choice)}`;
}

/* Changes the choice. The browser's back button undoes the change. */
export function go(changes) {
  location.hash = link({ ...read(), ...changes });
}

/* Adds to the address without a step in the browser's history. */
export function complete(changes) {
  history.replaceState(null, "", link({ ...read(), ...changes }));
}
