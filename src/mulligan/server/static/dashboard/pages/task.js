/** One task: its last hour, what it fails with, and the jobs that failed last. */

import { get } from "../api.js";
import { barRow } from "../charts.js";
import { h } from "../dom.js";
import { argumentsOf, count, span } from "../format.js";
import { heading, link, name, panel, sum, table, when } from "../parts.js";
import { hourPanels } from "./hour.js";
import { NO_HOUR, hourIsStale, rate } from "./tasks.js";

const LAST_FAILURES = 10;
const SHOWN_TYPES = 12;

export default {
  title: ({ name: task }) => `Task ${task}`,
  async load({ name: task }) {
    const [hour, ran, declared, failed] = await Promise.all([
      get("/api/hour", { task }), get("/api/hour/tasks"), get("/api/tasks"),
      get("/api/jobs", { task, status: "failed", limit: LAST_FAILURES })]);
    return {
      minutes: hour.minutes,
      queues: ran.tasks.filter((each) => each.task === task),
      declared: declared.tasks.find((each) => each.name === task) ?? null,
      failed: failed.jobs,
    };
  },
  stale: hourIsStale,
  view({ data, route: { name: task }, now, readOnly }) {
    const { minutes, queues, declared, failed } = data;
    return [
      heading(task, declared && h("span.id", {}, signature(declared)), [
        !readOnly && declared && link(["enqueue"], "Enqueue", { task }),
        link(["jobs"], "Jobs", { task })]),
      queues.length ? queues.map(tilesOf) : tilesOf({ ...NO_HOUR, queue: declared?.queue ?? "" }),
      hourPanels(minutes, now, { waits: false }),
      h("div.columns", {},
        panel("Failures by type", typesOf(queues)),
        panel("Last dead letters", lastFailures(failed, now))),
    ];
  },
};

const signature = ({ parameters }) =>
  `(${parameters.map(({ name: each, type, required }) => `${each}${type ? `: ${type}` : ""}${required ? "" : " = …"}`).join(", ")})`;

function tilesOf({ queue, per_minute: perMinute, succeeded, failed, runtime }) {
  const tile = (label, value, below) => h("div.tile", { "data-key": label },
    h("span.label", {}, label), h("strong", {}, value), h("span.below", {}, below));
  return h("div.tiles", { "data-key": queue, role: "group", "aria-label": queue ? `Queue ${queue}` : "The last hour" },
    tile("Attempts a minute", rate(perMinute), queue ? ["queue ", link(["queues", queue], name(queue))] : "last hour"),
    tile("Succeeded", count(succeeded), "last hour"),
    tile("Failed", count(failed), "last hour"),
    tile("Runtime p50", span(runtime.p50), "half are faster"),
    tile("Runtime p95", span(runtime.p95), "5 % are slower"),
    tile("Runtime p99", span(runtime.p99), "1 % are slower"));
}

function typesOf(queues) {
  const totals = new Map();
  for (const { failures } of queues)
    for (const [type, number] of Object.entries(failures)) totals.set(type, (totals.get(type) ?? 0) + number);
  const rows = [...totals].sort((one, other) => other[1] - one[1]);
  if (!rows.length) return h("p.empty", {}, "Nothing has failed in the last hour.");
  const rest = rows.slice(SHOWN_TYPES);
  return h("div.types", {},
    rows.slice(0, SHOWN_TYPES).map(([type, number]) => barRow(type, number, rows[0][1], "bad")),
    rest.length > 0 && h("p.below", {}, `${count(sum(rest, ([, number]) => number))} more of ${count(rest.length)} types`));
}

function lastFailures(jobs, now) {
  return table({
    caption: "Jobs of this task that failed for good, newest first",
    empty: "No job of this task has failed for good.",
    key: (job) => job.id,
    rows: jobs,
    columns: [
      { title: "Job", cell: (job) => link(["jobs", job.id], name(job.id)) },
      { title: "Arguments", cell: ({ body }) => h("span.arguments", {}, argumentsOf(body)) },
      { title: "Failure", cell: (job) => h("span.failure", { title: job.last_failure_reason }, job.last_failure_reason) },
      { title: "Ended", cell: (job) => when(job.ended_at, now) },
    ],
  });
}
