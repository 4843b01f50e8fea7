/** Every task: how often it ran in the last hour, how it ended, and how long it took. */

import { get } from "../api.js";
import { h } from "../dom.js";
import { NOTHING, count, span } from "../format.js";
import { ordering } from "../lists.js";
import { heading, link, name, table } from "../parts.js";

const LOOK_AGAIN_AFTER = 15_000;

export default {
  title: () => "Tasks",
  async load() {
    const [ran, declared] = await Promise.all([get("/api/hour/tasks"), get("/api/tasks")]);
    return { rows: rowsOf(ran.tasks, declared.tasks) };
  },
  stale: hourIsStale,
  view({ data: { rows }, memory, redraw }) {
    const number = (title, by, words) =>
      ({ title, number: true, by, cell: (row) => (by(row) === null ? NOTHING : words(by(row))) });
    return [
      heading("Tasks", h("span.below", {}, "the last hour")),
      table({
        caption: "Tasks, with their last hour",
        empty: "No task has run, and the server knows none.",
        key: (row) => JSON.stringify([row.task, row.queue]),
        rows,
        order: ordering(memory, redraw),
        columns: [
          { title: "Task", by: (row) => row.task, cell: (row) => link(["tasks", row.task], name(row.task)) },
          { title: "Queue", by: (row) => row.queue, cell: (row) => link(["queues", row.queue], name(row.queue)) },
          number("A minute", (row) => row.per_minute, rate),
          number("Succeeded", (row) => row.succeeded, count),
          number("Failed", (row) => row.failed, count),
          number("p50", (row) => row.runtime.p50, span),
          number("p95", (row) => row.runtime.p95, span),
          number("p99", (row) => row.runtime.p99, span),
          { title: "Most frequent failure", cell: ({ failures }) => mostFrequent(failures) },
        ],
      }),
    ];
  },
};

/** Whether numbers of the last hour should be asked for again. */
export function hourIsStale(data, age) {
  return age > LOOK_AGAIN_AFTER;
}

/** Attempts a minute; few digits are enough. */
export const rate = (perMinute) => (perMinute >= 10 ? count(Math.round(perMinute)) : String(+perMinute.toFixed(2)));

/** What a task that has not run has to show. */
export const NO_HOUR = {
  succeeded: 0, failed: 0, snoozed: 0, per_minute: 0, runtime: { p50: null, p95: null, p99: null }, failures: {},
};

function rowsOf(ran, declared) {
  const known = new Set(ran.map(({ task }) => task));
  const idle = declared.filter((task) => !known.has(task.name));
  return [...ran, ...idle.map((task) => ({ task: task.name, queue: task.queue, ...NO_HOUR }))];
}

function mostFrequent(failures) {
  const [first] = Object.entries(failures);
  return first && [name(first[0]), h("span.below", {}, ` ${count(first[1])}`)];
}
