/** The pieces that pages are made of. */

import { h } from "./dom.js";
import { relative, time } from "./format.js";

/** A link to a page of the dashboard. */
export function link(segments, text, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const tail = given.length ? `?${new URLSearchParams(given)}` : "";
  return h("a", { href: `#/${segments.map(encodeURIComponent).join("/")}${tail}` }, text);
}

/**
 * A table: `columns` are `{title, cell(row), number, brief}`; narrow screens stack its cells, and put
 * several that are numbers or brief beside each other. With an `order`, columns that have `by(row)` can
 * be sorted by. A column's `head()` takes the place of its title. `title(row)` may give a row above it.
 */
export function table({ caption, columns, rows, key, empty, order = null, title = () => null }) {
  if (!rows.length) return h("p.empty", {}, empty);
  const cell = (column, row) =>
    h(`td${classesOf(column)}`, { role: "cell", "data-label": column.title },
      h("div", {}, column.cell(row)));
  const shown = order ? order.sorted(rows, columns) : rows;
  return h(order ? "table.sortable" : "table", { role: "table" },
    h("caption.hidden", {}, caption),
    h("thead", { role: "rowgroup" },
      h("tr", { role: "row" }, columns.map((column) => columnHeader(column, order)))),
    h("tbody", { role: "rowgroup" },
      shown.map((row) => [
        titleRow(title(row), key(row), columns.length),
        h("tr", { role: "row", "data-key": key(row) }, columns.map((column) => cell(column, row)))])),
  );
}

const titleRow = (content, key, width) => content &&
  h("tr.title", { role: "row", "data-key": `title of ${key}` }, h("td", { role: "cell", colspan: width }, content));

const classesOf = ({ number, brief, choice }) =>
  (number ? ".number" : "") + (brief ? ".brief" : "") + (choice ? ".choice" : "");

function columnHeader(column, order) {
  const { title, by, head } = column;
  const sorts = order && by;
  return h(`th${classesOf(column)}`,
    { scope: "col", role: "columnheader", "data-key": title, "aria-sort": sorts && order.of(column) },
    head ? head() : sorts ? button(title, () => order.choose(column), "sort") : title);
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

/** The live workers that run jobs; a server, which only does chores, is none. */
export const serving = (overview) =>
  overview.workers.filter((worker) => worker.live && worker.queues.length > 0);

/** What keeps the jobs of a queue from starting, or that nothing does. */
export function queueState(queue, numbers, overview) {
  if (numbers.paused) return badge("paused", "retry");
  if (!serving(overview).some((worker) => worker.queues.includes(queue))) return badge("no worker", "idle");
  const [limit, ...others] = numbers.held_by;
  if (limit === undefined) return badge("serving", "good");
  const more = others.length ? ` and ${others.length} more` : "";
  return h("a", { href: "#/limits", title: `All due jobs wait for limit ${limit}${more}, which is paused.` },
    badge("limit paused", "retry"));
}

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

/** A button that copies a text, and says so. */
export function copyButton(text, what) {
  const copied = async ({ currentTarget: pressed }) => {
    await copyText(text);
    pressed.textContent = "Copied";
    setTimeout(() => (pressed.textContent = "Copy"), 2000);
  };
  return button("Copy", copied, "quiet", { "aria-label": `Copy ${what}` });
}

/** Browsers give the clipboard to pages of https and of this machine; elsewhere a selection is copied. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea.hidden", { readonly: true }, text);
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
