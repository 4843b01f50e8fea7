/** The pieces that pages are made of. */

import { h } from "./dom.js";
import { relative, time } from "./format.js";

/** A link to a page of the dashboard. */
export function link(segments, text, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const tail = given.length ? `?${new URLSearchParams(given)}` : "";
  return h("a", { href: `#/${segments.map(encodeURIComponent).join("/")}${tail}` }, text);
}

/** A table: `columns` are `{title, cell(row), number}`; narrow screens stack its cells. */
export function table({ caption, columns, rows, key, empty }) {
  if (!rows.length) return h("p.empty", {}, empty);
  const cell = (column, row) =>
    h(column.number ? "td.number" : "td", { role: "cell", "data-label": column.title },
      h("div", {}, column.cell(row)));
  return h("table", { role: "table" },
    h("caption.hidden", {}, caption),
    h("thead", { role: "rowgroup" },
      h("tr", { role: "row" },
        columns.map(({ title, number }) =>
          h(number ? "th.number" : "th", { scope: "col", role: "columnheader" }, title)))),
    h("tbody", { role: "rowgroup" },
      rows.map((row) =>
        h("tr", { role: "row", "data-key": key(row) }, columns.map((column) => cell(column, row))))),
  );
}

/** A titled part of a page. */
export function panel(title, ...content) {
  return h("section.panel", { "aria-label": title }, h("h2", {}, title), content);
}

/** A title, what goes with it, and the actions of a page. */
export function heading(title, beside, actions = []) {
  return h("div.heading", {},
    h("h1", { tabindex: "-1" }, title), beside,
    actions.some(Boolean) && h("div.actions", {}, actions));
}

/** A word with a colour of its own kind. */
export const badge = (word, kind = word) => h("span.badge", { "data-kind": kind }, word);

/** A button. */
export const button = (text, onclick, kind = "plain", more = {}) =>
  h(`button.${kind}`, { type: "button", onclick, ...more }, text);

/** A time, seen from the store's now; the whole of it on hover. */
export function when(seconds, now) {
  if (seconds === null || seconds === undefined) return relative(seconds, now);
  const exact = new Date(seconds * 1000).toISOString();
  return h("time", { datetime: exact, title: time(seconds) }, relative(seconds, now));
}

/** A list of names and values; entries that are null are left out. */
export function facts(entries, kind = "facts") {
  return h(`dl.${kind}`, {},
    entries.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** What a record holds under a name that may be any word, `constructor` too. */
export const at = (record, name) =>
  record && Object.hasOwn(record, name) ? record[name] : undefined;

/** A queue's, a region's or a job's name: cut off where it is too long, whole on hover. */
export const name = (text) => h("span.name", { title: text }, text);

/** The live workers that run jobs; a server that only keeps house is none. */
export const serving = (overview) =>
  overview.workers.filter((worker) => worker.live && worker.queues.length > 0);

/** The scope of a lane in words. */
export function scopeWords(scope) {
  if (scope === "*") return "any region";
  if (scope.startsWith("*-")) return `not ${scope.slice(2)} at first`;
  if (scope.startsWith("*+")) return `${scope.slice(2)} first`;
  return scope;
}

/** Whether jobs of this lane have failed before. */
export const isRetry = (lane) => lane.lane.endsWith("retry");

/** Whether any region may take from this lane. */
export const isGlobal = (lane) => lane.scope.startsWith("*");

/** The sum of a field, or of what a function says of each. */
export const sum = (rows, of) => rows.reduce((total, row) => total + of(row), 0);
