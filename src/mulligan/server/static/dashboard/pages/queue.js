/** One queue: its settings, its lanes, its delayed jobs, its last minute. */

import { get } from "../api.js";
import { barRow } from "../charts.js";
import { h } from "../dom.js";
import { count, span } from "../format.js";
import { at, badge, facts, heading, link, panel, scopeWords } from "../parts.js";
import { hoursAreStale, hoursChart } from "./delayed.js";
import { pauseButton } from "./queues.js";
import { recentTable } from "./recent.js";

export default {
  title: ({ name }) => `Queue ${name}`,
  load: ({ name }) => get("/api/delayed/hours", { queue: name }),
  stale: hoursAreStale,
  view({ overview, readOnly, data, route: { name: queue } }) {
    const numbers = at(overview.queues, queue);
    if (!numbers)
      return [heading(queue), h("p.empty", {}, "No queue of this name has a job, a worker or settings.")];
    const put = at(overview.delayed, queue) ?? { total: 0, ready_now: 0, ready_in_hour: 0 };
    return [
      heading(queue, badge(numbers.paused ? "paused" : "serving", numbers.paused ? "retry" : "good"), [
        !readOnly && pauseButton(queue, numbers.paused)]),
      h("div.columns", {},
        panel("Lanes", lanesOf(queue, overview), jobLinks(queue, numbers)),
        panel("Settings", settings(numbers, at(overview.gathering, queue) ?? 0))),
      panel("The last minute", recentTable(overview, queue)),
      panel("Delayed", facts([
        ["in all", count(put.total)],
        ["due now", count(put.ready_now)],
        ["due within the hour", count(put.ready_in_hour)],
      ], "figures"), put.total > 0 && hoursChart(data)),
    ];
  },
};

function lanesOf(queue, overview) {
  const lanes = overview.lanes.filter((lane) => lane.queue === queue);
  const most = Math.max(1, ...lanes.map((lane) => lane.ready));
  if (!lanes.length) return h("p.empty", {}, "Nothing waits.");
  return lanes.map((lane) => h("div.lane", { "data-key": `${lane.scope}/${lane.lane}` },
    barRow(`${lane.lane}, ${scopeWords(lane.scope)}`, lane.ready, most, kindOf(lane.lane)),
    lane.delayed > 0 && h("p.below", {}, `${count(lane.delayed)} more, not due yet`)));
}

const kindOf = (lane) => (lane.endsWith("retry") ? "retry" : lane);

function jobLinks(queue, numbers) {
  const listed = (status, text) => h("li", {}, link(["jobs"], text, { queue, status }));
  return h("ul.inline", { "aria-label": "Jobs of this queue" },
    listed("pending", "pending"),
    listed("processing", `${count(numbers.running)} running`),
    listed("done", `${count(numbers.done)} done`),
    listed("failed", `${count(numbers.failed)} failed`),
    listed("cancelled", `${count(numbers.cancelled)} cancelled`));
}

function settings({ policy, budget, grace }, gathering) {
  return facts([
    ["policy", policy],
    ["retry budget", budget ? budgetWords(budget) : "none"],
    ["grace for other regions", span(grace)],
    gathering > 0 && ["awaiting others", count(gathering)],
  ]);
}

function budgetWords({ limit, per, ratio }) {
  const parts = [
    limit !== null && `${count(limit)} in ${span(per)}`,
    ratio !== null && `${+(ratio * 100).toFixed(2)} % of fresh starts`,
  ];
  return parts.filter(Boolean).join(", or ");
}
