/** One queue: its settings, its lanes, its delayed jobs, its last minute. */

import { get, path } from "../api.js";
import { bar, barRow } from "../charts.js";
import { h } from "../dom.js";
import { count, percent, span } from "../format.js";
import { ordering } from "../lists.js";
import { at, facts, heading, link, name, panel, queueState, scopeWords, table } from "../parts.js";
import { hoursAreStale, hoursChart } from "./delayed.js";
import { pauseButton } from "./queues.js";
import { recentTable } from "./recent.js";

export default {
  title: ({ name }) => `Queue ${name}`,
  async load({ name }) {
    const [hours, { keys }] = await Promise.all([
      get("/api/delayed/hours", { queue: name }), get(path("api", "queues", name, "keys"))]);
    return { ...hours, keys };
  },
  stale: (data, age) => hoursAreStale(data, age) || (data.keys.length > 0 && age > 2000),
  view({ overview, readOnly, data, memory, redraw, route: { name: queue } }) {
    const numbers = at(overview.queues, queue);
    if (!numbers)
      return [heading(queue), h("p.empty", {}, "No queue of this name has a job, a worker or settings.")];
    const put = at(overview.delayed, queue) ?? { total: 0, ready_now: 0, ready_in_hour: 0 };
    return [
      heading(queue, queueState(queue, numbers, overview), [
        !readOnly && pauseButton(queue, numbers.paused)]),
      h("div.columns", {},
        panel("Lanes", lanesOf(queue, overview), jobLinks(queue, numbers)),
        panel("Settings", settings(numbers, at(overview.gathering, queue) ?? 0))),
      data.keys.length > 0 && panel("Fairness keys", keysOf(data.keys, memory, redraw)),
      panel("The last minute", recentTable(overview, queue)),
      panel("Delayed", facts([
        ["in all", count(put.total)],
        ["due now", count(put.ready_now)],
        ["due within the hour", count(put.ready_in_hour)],
      ], "figures"), put.total > 0 && hoursChart(data, put.ready_now)),
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

/** Who waits, and what each gets while all of them do; the headings sort. */
function keysOf(keys, memory, redraw) {
  const most = Math.max(...keys.map((key) => key.waiting));
  return [table({
    caption: "Fairness keys with work waiting",
    key: (row) => `${row.lane}/${row.region}/${row.key}`,
    rows: keys,
    order: ordering(memory, redraw),
    columns: [
      { title: "Key", cell: (row) => name(row.key), by: (row) => row.key },
      { title: "Lane", cell: (row) => `${row.lane}, ${scopeWords(row.region)}`, by: (row) => row.lane },
      { title: "Waiting", cell: (row) => h("div.through", {}, bar(row.waiting, most, kindOf(row.lane)), count(row.waiting)), by: (row) => row.waiting },
      { title: "Weight", number: true, cell: (row) => String(row.weight), by: (row) => row.weight },
      { title: "Share of starts", number: true, cell: (row) => percent(row.share), by: (row) => row.share },
      { title: "Turns ahead", number: true, cell: (row) => String(+row.turns.toFixed(2)), by: (row) => row.turns },
    ],
  }), h("p.below", {}, "Keys take turns by weight within a lane, however many jobs each has waiting.")];
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
