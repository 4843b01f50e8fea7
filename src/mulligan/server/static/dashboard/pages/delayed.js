/** Delayed jobs, and when they fall due. */

import { get } from "../api.js";
import { histogram } from "../charts.js";
import { h } from "../dom.js";
import { count, counted } from "../format.js";
import { heading, link, name, panel, sum, table } from "../parts.js";

const LOOK_AGAIN_AFTER = 15_000; // milliseconds: many jobs are looked through
const LABELLED = [6, 12, 18];

export default {
  title: () => "Delayed",
  load: () => get("/api/delayed/hours"),
  stale: hoursAreStale,
  view({ overview, data }) {
    const rows = Object.entries(overview.delayed).map(([queue, numbers]) => ({ queue, ...numbers }));
    const number = (title, cell) => ({ title, number: true, cell });
    return [
      heading("Delayed"),
      panel("The hours to come", hoursChart(data, sum(rows, (row) => row.ready_now))),
      panel("By queue", table({
        caption: "Delayed jobs by queue",
        empty: "No job is delayed.",
        key: (row) => row.queue,
        rows,
        columns: [
          { title: "Queue", cell: (row) => link(["queues", row.queue], name(row.queue)) },
          number("In all", (row) => count(row.total)),
          number("Due now", (row) => count(row.ready_now)),
          number("Due within the hour", (row) => count(row.ready_in_hour)),
        ],
      })),
    ];
  },
};

/** Whether the hours should be asked for again. */
export function hoursAreStale(data, age) {
  return age > LOOK_AGAIN_AFTER;
}

/** A column for jobs that are due, one for each of the hours to come, and one for all that is later. */
export function hoursChart({ hours, later, looked_at: lookedAt, complete }, dueNow) {
  const columns = hours.map((value, hour) => ({
    value, label: LABELLED.includes(hour) ? `+${hour} h` : "",
    title: `due in ${hour} to ${hour + 1} h: ${counted(value, "job")}`,
  }));
  columns.unshift({ value: dueNow, label: "due", title: `due now, and not started yet: ${counted(dueNow, "job")}` });
  columns.push({ value: later, label: "later", title: `due in more than ${hours.length} h: ${counted(later, "job")}` });
  const total = hours.reduce((all, value) => all + value, later);
  const label = `Due now: ${count(dueNow)}; in the next ${hours.length} hours: ${count(total - later)}; later: ${count(later)}`;
  return h("figure", {},
    histogram(columns, label),
    h("figcaption.below", {}, `${label}.`,
      !complete && ` Counted from the newest ${count(lookedAt)} pending jobs; there are more.`));
}
