/** One worker: its process, what it runs now, and a way to have it drain or stop. */

import { get, path, post } from "../api.js";
import { attempt, confirm, notify } from "../dialogs.js";
import { h } from "../dom.js";
import { argumentsOf, bytes, count, runtimeOf, span } from "../format.js";
import { badge, button, facts, heading, link, name, panel, table, when } from "../parts.js";

const ORDERS = {
  drain: {
    verb: "Drain", danger: false,
    means: "It starts nothing more, and exits when what it runs has ended. Where something keeps it alive, it is started again.",
  },
  stop: {
    verb: "Stop", danger: true,
    means: "It exits at once. What it runs is cut off, and runs again elsewhere.",
  },
};

export default {
  title: ({ name: id }) => `Worker ${id}`,
  load: ({ name: id }) => get(path("api", "workers", id)),
  stale: (data, age) => age > 2000,
  view({ data: worker, now, readOnly, reload }) {
    return [
      heading(worker.name || worker.id, h("span", { role: "status" },
        badge(worker.live ? "live" : "silent", worker.live ? "good" : "bad"),
        worker.order && [" ", badge(worker.order === "drain" ? "draining" : "stopping", "retry")]),
      readOnly || !worker.about ? [] : Object.keys(ORDERS).map((order) => orderButton(order, worker, reload))),
      h("div.columns", {},
        panel("About", about(worker, now)),
        panel("Runs now", running(worker.jobs, now))),
    ];
  },
};

function orderButton(order, { id, running: runs }, reload) {
  const { verb, means, danger } = ORDERS[order];
  return button(verb, async () => {
    const items = runs ? [`It runs ${count(runs)} now.`] : [];
    if (!(await confirm({ title: `${verb} worker ${id}?`, text: means, items, action: verb, danger }))) return;
    await attempt(async () => {
      await post(path("api", "workers", id, order));
      notify(`Worker ${id} is told to ${order}; it looks every 5 s.`);
      reload();
    });
  }, danger ? "danger" : "plain");
}

function about(worker, now) {
  const { about: told } = worker;
  return facts([
    ["id", h("span.id", {}, worker.id)],
    ["region", name(worker.region)],
    ["queues", worker.queues.length
      ? worker.queues.map((queue, index) => [index > 0 && ", ", link(["queues", queue], name(queue))])
      : "none: it does the chores of the store"],
    ["takes", worker.only ?? "fresh jobs and retries"],
    ["running", `${count(worker.running)} of ${count(worker.concurrency)} slots`],
    ["joined", when(worker.joined_at, now)],
    ["last beat", when(worker.beat_at, now)],
    ...(told ? [
      ["host", name(told.host)], ["process", String(told.pid)], ["app", name(told.app)],
      ["memory", told.memory === null ? "not known" : bytes(told.memory)],
      ["Python", told.python], ["mulligan", told.mulligan],
    ] : []),
  ]);
}

function running(jobs, now) {
  return table({
    caption: "Jobs that this worker runs now",
    empty: "It runs nothing now.",
    key: (job) => job.id,
    rows: jobs,
    columns: [
      { title: "Job", cell: (job) => [h("strong.line", {}, link(["jobs", job.id], name(job.task))), h("span.id.line", {}, name(job.id))] },
      { title: "Arguments", cell: ({ body }) => h("span.arguments", {}, argumentsOf(body)) },
      { title: "Attempt", number: true, cell: (job) => count(job.retry_count + 1) },
      { title: "For", number: true, cell: (job) => span(runtimeOf(job, now)) },
    ],
  });
}
