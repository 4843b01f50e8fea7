/** Lists whose rows can be sorted and chosen. Both are kept in the page's memory while it is shown. */

import { h } from "./dom.js";

/**
 * The order that a reader chose by the heading of a column: one press sorts the rows that are shown,
 * the next turns them round, and the third brings back the order in which they came.
 */
export function ordering(memory, redraw) {
  const chosen = memory.order ?? { title: null, down: false };
  const next = ({ title }) => {
    if (chosen.title !== title) return { title, down: false };
    return chosen.down ? null : { title, down: true };
  };
  return {
    chosen: chosen.title !== null,
    of: ({ title }) => (title !== chosen.title ? "none" : chosen.down ? "descending" : "ascending"),
    choose(column) {
      memory.order = next(column);
      redraw();
    },
    sorted(rows, columns) {
      const by = columns.find(({ title }) => title === chosen.title)?.by;
      if (!by) return rows;
      const ordered = [...rows].sort((one, other) => compared(by(one), by(other)));
      return chosen.down ? ordered.reverse() : ordered;
    },
  };
}

/** What is missing comes last, as if it were larger than anything. */
function compared(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return 1;
  if (other === null || other === undefined) return -1;
  return one < other ? -1 : 1;
}

/** The rows that were chosen, and the column in which they are; `words(row)` names one aloud. */
export function choosing({ memory, rows, key, words, redraw }) {
  memory.chosen ??= new Set();
  const has = (row) => memory.chosen.has(key(row));
  const put = (row, on) => memory.chosen[on ? "add" : "delete"](key(row));
  const box = (label, checked, change) => h("input", {
    type: "checkbox", checked, "aria-label": label,
    onchange: ({ currentTarget }) => {
      change(currentTarget.checked);
      redraw();
    },
  });
  return {
    rows: rows.filter(has),
    clear: () => memory.chosen.clear(),
    column: {
      title: "Choose",
      choice: true,
      head: () => box("Choose all that are shown", rows.every(has), (on) => rows.forEach((row) => put(row, on))),
      cell: (row) => box(`Choose ${words(row)}`, has(row), (on) => put(row, on)),
    },
  };
}

/** What can be done with the rows that were chosen; nothing is shown while there are none. */
export function selectionBar(words, buttons) {
  return h("div.selection", { role: "group", "aria-label": "What was chosen" },
    h("span", { "aria-live": "polite" }, words), buttons);
}
