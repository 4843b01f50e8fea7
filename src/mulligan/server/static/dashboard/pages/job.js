/** One job: why it is where it is, its attempts across regions, what it carries and what came of it. */

import { get, path } from "../api.js";
import { changeJobs } from "../change.js";
import { timeline } from "../charts.js";
import { h } from "../dom.js";
import { cancelButton, gatherPanel, loadGather } from "../gather.js";
import { NOTHING, argumentsOf, count, json, span } from "../format.js";
import { badge, button, copyButton, facts, heading, link, name, panel, scopeWords, table, when } from "../parts.js";
import { recordsOf } from "../records.js";
import { tracebackView } from "../traceback.js";

const ENDED = ["done", "failed", "cancelled"];

export default {
  title: ({ name: id }) => `Job ${id}`,
  async load({ name: id }) {
    const of = (...more) => get(path("api", "jobs", id, ...more));
    const [job, history, explained, chain, records] = await Promise.all([
      of(), of("history"), of("explain"), of("stages"), of("records")]);
    const gather = await loadGather(job);
    return { job, gather, attempts: history.attempts, explanation: explained.explanation, stages: chain.stages, records };
  },
  stale: ({ job }) => !ENDED.includes(job.status),
  stream: ({ name: id }, { job }) => !ENDED.includes(job.status) && path("api", "jobs", id, "events"),
  told: (data, { status, steps, progress, log, checkpoint }) =>
    (status !== data.job.status ? null : { ...data, records: { steps, progress, log, checkpoint } }),
  view({ data: { job, gather, attempts, explanation, stages, records }, now, readOnly, reload, memory, redraw }) {
    return [
      heading(job.task, [
        h("span", { role: "status" }, badge(job.status)),
        h("span.id", {}, job.id), copyButton(job.id, "the job's id"),
      ], readOnly ? [] : actions(job, gather, records, reload)),
      h("p.explanation", {}, explanation),
      recordsOf(records, now, memory, redraw),
      gather && gatherPanel(gather, readOnly, reload),
      stages.length > 0 && panel("Chain", chainOf(stages, job.id)),
      panel("Attempts", attemptsOf(job, attempts, now)),
      tracebacksOf(attempts),
      h("div.columns", {},
        panel("About", about(job, now)),
        h("div", {},
          panel("Payload", payload(job.body)),
          job.status === "done" && panel("Result", written(job.result)))),
    ];
  },
};

function actions(job, gather, records, reload) {
  const act = (what, text, kind) => button(text, async () => {
    if (await changeJobs(what, [job.id], [job.id])) reload();
  }, kind);
  if (job.status === "failed")
    return [act("replay", "Replay", "primary"), records.steps.length + Boolean(records.checkpoint) > 0 &&
      act("replay-from-start", "Replay from the start"), act("purge", "Purge", "danger")];
  const whole = gather && cancelButton(gather, reload);
  const alone = !ENDED.includes(job.status) && act("cancel", whole ? "Cancel this job only" : "Cancel", "danger");
  return [whole, alone];
}

function attemptsOf(job, attempts, now) {
  const drawn = [...attempts.map(failedBar), ...lastBar(job, now)];
  if (!drawn.length) return h("p.empty", {}, ENDED.includes(job.status) ? "It never started." : "It has not started yet.");
  return [
    timeline(drawn, drawn.length > attempts.length || attempts.length < 50 ? job.created_at : drawn[0].from),
    attempts.length > 0 && table({
      caption: "Failed and lost attempts, oldest first",
      key: (attempt) => `${attempt.replay}/${attempt.number}/${attempt.started_at}`,
      rows: attempts,
      columns: [
        { title: "Attempt", number: true, cell: (a) => `${a.number}${a.replay ? ` (replay ${a.replay})` : ""}` },
        { title: "Region", cell: (a) => name(a.region) },
        { title: "Worker", cell: (a) => name(a.worker) },
        { title: "Started", cell: (a) => when(a.started_at, now) },
        { title: "Took", number: true, cell: (a) => (a.ended_at === null ? NOTHING : span(a.ended_at - a.started_at)) },
        { title: "Error", cell: errorOf },
        { title: "Next after", number: true, cell: (a) => (a.delay === null ? "the last" : span(a.delay)) },
      ],
    }),
  ];
}

/** Tracebacks, the newest first and open; attempts that failed alike share one. */
function tracebacksOf(attempts) {
  const groups = new Map();
  for (const attempt of attempts.filter(({ traceback }) => traceback))
    groups.set(attempt.traceback, [...(groups.get(attempt.traceback) ?? []), attempt]);
  const shown = [...groups].reverse();
  return shown.length > 0 && panel(shown.length > 1 ? "Tracebacks" : "Traceback", shown.map(([text, alike], index) =>
    h("details.failed", { "data-key": text, open: index === 0 },
      h("summary", {}, h("strong", {}, alike[0].type), " ", h("span.message", {}, alike[0].message),
        h("span.below", {}, ` ${whichAttempts(alike)}`)),
      tracebackView(text))));
}

function whichAttempts(attempts) {
  const numbers = attempts.map(({ number, replay }) => `${number}${replay ? ` (replay ${replay})` : ""}`);
  return `${numbers.length > 1 ? "attempts" : "attempt"} ${numbers.join(", ")}`;
}

function errorOf({ type, code, message, refused }) {
  return [
    h("strong", {}, type), code && ` [${code}]`, " ", h("span.message", {}, message),
    refused && h("pre", { tabindex: "0" }, refused),
  ];
}

function failedBar({ number, region, started_at: from, ended_at: ended, type, message }) {
  const to = ended ?? from;
  const title = `attempt ${number} in ${region}, ${span(to - from)}: ${type}: ${message}`;
  return { region, from, to, kind: "failed", title };
}

/** The attempt that runs, succeeded or was cancelled, which the history does not have. */
function lastBar(job, now) {
  if (job.started_at === null || !["processing", "done", "cancelled"].includes(job.status)) return [];
  if (job.status === "cancelled" && job.started_at < job.due) return []; // it waited for the next
  const to = job.ended_at ?? Math.max(now, job.started_at);
  const region = job.worker_region ?? job.region;
  const title = `attempt ${job.retry_count + 1} in ${region}, ${span(to - job.started_at)}: ${job.status}`;
  return [{ region, from: job.started_at, to, kind: job.status, title }];
}

const written = (value) => h("pre", { tabindex: "0" }, json(value));

/** The arguments; policy and what follows are there for who asks. */
function payload(body) {
  if (body === null || typeof body !== "object" || !("args" in body)) return written(body);
  const { task, args, kwargs, ...rest } = body;
  return [
    written({ task, args, kwargs }),
    h("details", {}, h("summary", {}, "Policy, and what comes next"), written(rest)),
  ];
}

function chainOf(stages, current) {
  return h("ol.chain", {}, stages.map((stage) => h("li", { "data-key": String(stage.number) },
    h("strong", {}, stage.name),
    stage.members > 1 && h("span.below", {}, ` ${count(stage.members)} jobs`),
    stage.jobs.length === 0 && h("span.below", {}, "not begun, or no longer stored"),
    h("ul.plain", {}, stage.jobs.map((job) => h("li", { "data-key": job.id },
      job.id === current ? h("span.here", { "aria-current": "true" }, job.id) : link(["jobs", job.id], name(job.id)),
      " ", badge(job.status), h("span.arguments", { title: argumentsOf(job) }, argumentsOf(job))))),
  )));
}

/** The limits that it names, with costs that are not 1, and the one that it waits for. */
function limitsOf({ limits, waits_for: waitsFor }) {
  const named = Object.entries(limits).map(([limit, cost]) => (cost === 1 ? limit : `${limit} (${count(cost)})`));
  if (!named.length) return null;
  return waitsFor ? `${named.join(", ")}; waits for ${waitsFor}` : named.join(", ");
}

function about(job, now) {
  const given = (label, value) => value !== null && value !== undefined && [label, value];
  return facts([
    ["task", link(["tasks", job.task], name(job.task))],
    ["queue", link(["queues", job.queue], name(job.queue))],
    ["region", name(job.region)],
    ["lane", `${job.lane}${job.scope === job.region ? "" : `, ${scopeWords(job.scope)}`}`],
    ["retries", count(job.retry_count)],
    job.replay > 0 && ["replayed", count(job.replay)],
    job.snoozes > 0 && ["snoozed", count(job.snoozes)],
    ["enqueued", when(job.created_at, now)],
    job.status === "pending" && ["due", when(job.due, now)],
    given("started", job.started_at && when(job.started_at, now)),
    given("ended", job.ended_at && when(job.ended_at, now)),
    given("worker", job.worker && name(job.worker)),
    given("in region", job.worker_region && name(job.worker_region)),
    given("last failure", job.last_failure_reason),
    given("cancelled because", job.cancel_reason),
    given("unique key", job.unique_key && name(job.unique_key)),
    given("limits", limitsOf(job)),
    given("fairness key", job.fairness_key && name(job.fairness_key)),
    given("expires", job.expires_at && when(job.expires_at, now)),
    given("debounced until", job.debounce_until && when(job.debounce_until, now)),
    given("key held until", job.unique_until && when(job.unique_until, now)),
    job.awaits > 0 && ["awaits", `${count(job.awaits)} jobs`],
    given("arrives at", job.gather && link(["jobs", job.gather], name(job.gather))),
  ]);
}
