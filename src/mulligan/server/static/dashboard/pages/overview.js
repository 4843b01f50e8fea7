/** Everything at a glance: the lanes of each region around the global retry queue. */

import { get } from "../api.js";
import { barRow, dots, sparkline } from "../charts.js";
import { h } from "../dom.js";
import { NOTHING, count, counted, percent, span } from "../format.js";
import { at, badge, heading, isGlobal, isRetry, link, name, panel, scopeWords, serving, sum, when } from "../parts.js";
import { hourPanels } from "./hour.js";
import { queueTable } from "./queues.js";
import { recentTable } from "./recent.js";
import { hourIsStale } from "./tasks.js";

const SHOWN_RUNNING = 4;

export default {
  title: () => "Overview",
  load: () => get("/api/hour"),
  stale: hourIsStale,
  view({ overview, data: { minutes }, samples, readOnly, now }) {
    return [
      heading("Overview"),
      alerts(overview),
      tightLimits(overview, now),
      tiles(overview, samples),
      lanes(overview),
      hourPanels(minutes, now),
      panel("The last minute", recentTable(overview)),
      panel("Queues", queueTable(overview, readOnly)),
    ];
  },
};

function alerts({ alerts: said, warnings }) {
  const sentences = [...said, ...warnings];
  // Their number is announced; the sentences count seconds, and would be read aloud each second.
  return [
    h("p.hidden", { role: "status" }, counted(sentences.length, "alert")),
    sentences.length > 0 && h("ul.alerts", {}, sentences.map((text) => h("li", {}, text))),
  ];
}

/** The paused limits, and then the full ones. */
function tightLimits({ limits }, now) {
  return limits.length > 0 && panel("Paused and full limits", h("ul.plain.limits", {}, limits.map((limit) =>
    h("li", { "data-key": limit.name },
      badge(limit.state, limit.state === "paused" ? "retry" : "delayed"), " ",
      link(["limits"], name(limit.name)), " ",
      h("span.below", {}, `${count(limit.waiting)} waiting, ${count(limit.running)} running`,
        limit.paused_until !== null && [", ends ", when(limit.paused_until, now)])))));
}

function tiles(overview, samples) {
  const queues = Object.values(overview.queues);
  const delayed = Object.values(overview.delayed);
  const history = (field) => samples.map((sample) => sample[field]);
  const recent = Object.values(overview.recent).flatMap(Object.values);
  const lately = (field) => sum(recent, (each) => each[field]);
  return h("div.tiles", {},
    tile("Waiting", toJobs("pending", sum(queues, (q) => q.fresh + q.urgent + q.retry)), "due now, in all lanes",
      sparkline(history("waiting"), "fresh")),
    tile("Global retries", count(overview.global_retry_queue_size), "due now, for any region",
      sparkline(history("retries"), "retry")),
    tile("Running", toJobs("processing", sum(queues, (q) => q.running)),
      `of ${count(sum(serving(overview), (worker) => worker.concurrency))} slots`,
      sparkline(history("running"), "good")),
    tile("Started", count(lately("started")), `${count(lately("retries_started"))} of them retries, last minute`),
    tile("Succeeded", count(lately("succeeded")), `${count(lately("failed"))} failed, last minute`),
    tile("Delayed", link(["delayed"], count(sum(delayed, (d) => d.total))),
      `${count(sum(delayed, (d) => d.ready_in_hour))} due within the hour`),
    tile("Dead letters", link(["dead"], count(sum(queues, (q) => q.failed))), link(["dead"], "by error")),
  );
}

const toJobs = (status, number) => link(["jobs"], count(number), { status });

function tile(label, value, below, drawing = null) {
  return h("div.tile", { "data-key": label },
    h("span.label", {}, label), h("strong", {}, value), h("span.below", {}, below), drawing);
}

/** The regions on both sides of the retries that any of them may take; one region is one card. */
function lanes(overview) {
  const regions = Object.keys(overview.regions);
  const named = regions.filter((region) => region !== "*");
  if (named.length <= 1) return h("section.lanes.single", { "aria-label": "Lanes" }, onlyCard(named[0] ?? "*", overview));
  const half = Math.ceil(regions.length / 2);
  const most = Math.max(1, ...overview.lanes.map((lane) => lane.ready));
  const side = (some) => h("div.side", {}, some.map((region) => regionCard(region, overview, most)));
  return h("section.lanes", { "aria-label": "Lanes by region" },
    side(regions.slice(0, half)), globalCard(overview, most), side(regions.slice(half)));
}

/** All lanes where there is at most one region. */
function onlyCard(region, overview) {
  const ready = (some) => sum(overview.lanes.filter(some), (lane) => lane.ready);
  const [fresh, urgent, retry] = [
    ready((lane) => !isRetry(lane) && lane.lane !== "urgent"), ready((lane) => lane.lane === "urgent"), ready(isRetry)];
  const most = Math.max(1, fresh, urgent, retry);
  const backoff = sum(overview.lanes.filter(isRetry), (lane) => lane.delayed);
  const workers = ableWorkers(overview.lanes, overview);
  return card(region, overview, workers, [
    barRow("fresh", fresh, most, "fresh"),
    urgent > 0 && barRow("urgent", urgent, most, "urgent"),
    barRow("retry", retry, most, "retry"),
    backoff > 0 && h("p.below", {}, `${counted(backoff, "retry", "retries")} more in backoff`),
    region !== "*" && work(region, overview, serving(overview)),
  ]);
}

function globalCard(overview, most) {
  const lanes = overview.lanes.filter((lane) => isGlobal(lane) && isRetry(lane));
  const scopes = [...new Set(lanes.map(({ scope }) => scope))].sort();
  const ready = lanes.filter((lane) => lane.ready);
  const oldest = ready.length ? overview.now - Math.min(...ready.map((lane) => lane.oldest_due)) : null;
  const of = (scope) => sum(lanes.filter((lane) => lane.scope === scope), (lane) => lane.ready);
  return h("article.card.global", { "aria-label": "Global retry queue" },
    h("header", {}, h("h2", {}, "Global retry queue")),
    h("strong.big", {}, count(overview.global_retry_queue_size)),
    dots(sum(lanes, (lane) => lane.ready), sum(lanes, (lane) => lane.delayed)),
    h("p.below", {}, oldest === null ? "no retry waits" : `the oldest has waited ${span(Math.max(0, oldest))}`),
    scopes.map((scope) => barRow(scopeWords(scope), of(scope), most, "retry")),
    h("p.below", {}, `${count(sum(lanes, (lane) => lane.delayed))} more in backoff`),
  );
}

function regionCard(region, overview, most) {
  const status = at(overview.regions, region);
  const own = overview.lanes.filter((lane) => lane.scope === region && !(isGlobal(lane) && isRetry(lane)));
  const urgent = sum(own.filter((lane) => lane.lane === "urgent"), (lane) => lane.ready);
  const anywhere = region === "*";
  const workers = anywhere ? ableWorkers(own, overview) : serving(overview).filter((worker) => worker.region === region);
  return card(region, overview, workers, [
    barRow("fresh", status.queue_size - urgent, most, "fresh"),
    urgent > 0 && barRow("urgent", urgent, most, "urgent"),
    barRow("retry", status.retry_queue_size, most, "retry"),
    // Jobs for any region run in a region, and are counted there.
    !anywhere && work(region, overview, workers),
  ]);
}

/** The live workers, unless one of the queues with due jobs has none. */
function ableWorkers(lanes, overview) {
  const live = serving(overview);
  const due = lanes.filter((lane) => lane.ready);
  return due.every(({ queue }) => live.some((worker) => worker.queues.includes(queue))) ? live : [];
}

function card(region, overview, workers, content) {
  const open = overview.health.filter((each) => each.region === region && each.breaker.open);
  return h("article.card", { "data-key": region, "aria-label": `Region ${region}` },
    h("header", {},
      h("h2", {}, name(region === "*" ? "any region" : region)),
      badge(workers.length ? "live" : "no worker", workers.length ? "good" : "idle"),
      open.map(({ queue }) => badge(`breaker open: ${queue}`, "bad"))),
    content);
}

/** What runs in a region, and how it went lately. */
function work(region, overview, workers) {
  const [busy, slots] = [sum(workers, (worker) => worker.running), sum(workers, (worker) => worker.concurrency)];
  return [
    barRow("running", busy, slots, "good", `${count(busy)} / ${count(slots)}`),
    runningJobs(at(overview.regions, region)),
    health(region, overview),
  ];
}

function runningJobs(status) {
  const jobs = status.current_jobs ?? (status.current_job ? [status.current_job] : []);
  const more = jobs.length - SHOWN_RUNNING;
  return h("ul.running", { "aria-label": "Running" },
    jobs.slice(0, SHOWN_RUNNING).map((job) => h("li", { "data-key": job.job_id },
      link(["jobs", job.job_id], name(job.job_id)),
      job.retry_count > 0 && badge(`retry ${job.retry_count}`, "retry"),
      job.original_region && h("span.below", {}, `from ${job.original_region}`))),
    jobs.length === 0 && h("li.below", {}, "idle"),
    more > 0 && h("li", {}, link(["jobs"], `${count(more)} more`, { status: "processing" })));
}

function health(region, overview) {
  const recent = Object.values(overview.recent).map((regions) => at(regions, region)).filter(Boolean);
  const known = (field) => recent.map((each) => each[field]).filter((value) => value !== null);
  const figure = (label, value) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
  return h("dl.figures", {},
    figure("success", range(known("success_rate"), percent)),
    figure("retries/min", count(sum(recent, (each) => each.retries_started))),
    figure("retry wait p99", range(known("retry_wait_p99"), span)),
    figure("time saved", range(known("time_saved_mean"), span)));
}

/** The least and the most of what its queues say; one value where they agree. */
function range(values, words) {
  if (!values.length) return NOTHING;
  const ends = [Math.min(...values), Math.max(...values)].map(words);
  return ends[0] === ends[1] ? ends[0] : `${ends[0]}–${ends[1]}`;
}
