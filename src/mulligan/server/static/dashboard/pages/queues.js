/** Every queue: what waits, runs and has ended. */

import { count, counted } from "../format.js";
import { at, button, heading, link, name, queueState, table } from "../parts.js";
import { switchQueue } from "../change.js";

export default {
  title: () => "Queues",
  view: ({ overview, readOnly }) => [
    heading("Queues", howMany(overview)),
    queueTable(overview, readOnly),
  ],
};

const howMany = (overview) => counted(Object.keys(overview.queues).length, "queue");

/** The table of all queues. */
export function queueTable(overview, readOnly) {
  const rows = Object.entries(overview.queues).map(([queue, numbers]) => ({ queue, ...numbers }));
  const number = (title, cell) => ({ title, number: true, cell });
  const listed = (status, field = status) => (row) =>
    row[field] ? link(["jobs"], count(row[field]), { status, queue: row.queue }) : "0";
  return table({
    caption: "Queues",
    empty: "No queue has a job, a worker or settings yet. Enqueue a job to begin.",
    key: (row) => row.queue,
    rows,
    columns: [
      { title: "Queue", cell: (row) => link(["queues", row.queue], name(row.queue)) },
      number("Fresh", listed("pending", "fresh")),
      number("Urgent", listed("pending", "urgent")),
      number("Retry", listed("pending", "retry")),
      number("Running", listed("processing", "running")),
      number("Delayed", (row) => count(at(overview.delayed, row.queue)?.total ?? 0)),
      number("Done", listed("done")),
      number("Failed", listed("failed")),
      number("Cancelled", listed("cancelled")),
      { title: "Policy", cell: (row) => row.policy },
      { title: "State", cell: (row) => queueState(row.queue, row, overview) },
      !readOnly && { title: "Change", cell: (row) => pauseButton(row.queue, row.paused) },
    ].filter(Boolean),
  });
}

/** Pauses a queue that serves, resumes one that is paused. */
export function pauseButton(queue, paused) {
  const word = paused ? "Resume" : "Pause";
  return button(word, () => switchQueue(queue, !paused), "small", { "aria-label": `${word} queue ${queue}` });
}
