/** Who works where, and the fleets that start them. */

import { bar } from "../charts.js";
import { h } from "../dom.js";
import { NOTHING, bytes, count, counted, span } from "../format.js";
import { badge, facts, heading, link, name, panel, serving, table, when } from "../parts.js";

export default {
  title: () => "Workers",
  view({ overview, now }) {
    return [
      heading("Workers", h("span.below", {}, counted(serving(overview).length, "live worker"))),
      workerTable(overview.workers, now),
      overview.shards.length > 0 && shardPanel(overview.shards),
      Object.entries(overview.fleets).map(([where, fleet]) => fleetPanel(where, fleet, now)),
    ];
  },
};

function workerTable(workers, now) {
  return table({
    caption: "Workers",
    empty: "No worker has joined. Start one with: mulligan worker APP",
    key: (worker) => worker.id,
    rows: [...workers].sort((one, other) => Number(other.live) - Number(one.live)),
    columns: [
      { title: "Worker", cell: (worker) => [
        worker.name && h("strong.line", {}, name(worker.name)), link(["workers", worker.id], name(worker.id))] },
      { title: "State", cell: (worker) => badge(worker.live ? "live" : "silent", worker.live ? "good" : "bad") },
      { title: "Region", cell: (worker) => name(worker.region) },
      { title: "Queues", cell: queuesOf },
      { title: "Serves", cell: (worker) => (worker.queues.length ? (worker.only ?? "all") : NOTHING) },
      { title: "Running", cell: loadOf },
      { title: "Memory", number: true, cell: ({ about }) => (about?.memory ? bytes(about.memory) : NOTHING) },
      { title: "Last beat", cell: (worker) => when(worker.beat_at, now) },
      { title: "Joined", cell: (worker) => when(worker.joined_at, now) },
    ],
  });
}

function shardPanel(shards) {
  return panel("Shards", table({
    caption: "Shards",
    empty: "The app has one store.",
    key: (shard) => shard.shard,
    rows: shards,
    columns: [
      { title: "Shard", number: true, cell: (shard) => count(shard.shard) },
      { title: "State", cell: (shard) => badge(shard.away ? "away" : "answers", shard.away ? "bad" : "good") },
      { title: "Store", cell: (shard) => name(shard.url) },
      { title: "Waiting", number: true, cell: (shard) => count(shard.waiting) },
      { title: "Running", number: true, cell: (shard) => count(shard.running) },
      { title: "Why", cell: (shard) => shard.away ?? NOTHING },
    ],
  }));
}

function queuesOf({ queues }) {
  if (!queues.length) return h("span.below", {}, "none: it does chores");
  return queues.map((queue, index) => [index > 0 && ", ", link(["queues", queue], name(queue))]);
}

function loadOf({ running, concurrency, queues }) {
  if (!queues.length) return NOTHING;
  const words = `${count(running)} of ${count(concurrency)}`;
  return h("div.load", {}, bar(running, concurrency, "good"), h("span", {}, words));
}

function fleetPanel(where, fleet, now) {
  return panel(`Fleet ${where}`,
    facts([
      ["phase", badge(fleet.phase, fleet.phase === "running" ? "good" : "idle")],
      ["process", String(fleet.pid)], ["since", when(fleet.since, now)], ["told", when(fleet.at, now)],
      ...Object.entries(fleet.away).map(([store, reason]) => [`store away: ${store}`, reason]),
    ], "figures"),
    table({
      caption: `Kinds of fleet ${where}`,
      empty: "It has no kinds.",
      key: ([kind]) => kind,
      rows: Object.entries(fleet.kinds),
      columns: [
        { title: "Kind", cell: ([kind]) => name(kind) },
        { title: "Wanted", number: true, cell: ([, state]) => count(state.wanted) },
        { title: "Running", number: true, cell: ([, state]) => count(state.running) },
        { title: "Starting", number: true, cell: ([, state]) => count(state.starting) },
        { title: "Draining", number: true, cell: ([, state]) => count(state.draining) },
        { title: "Resting", number: true, cell: ([, state]) => count(state.resting) },
        { title: "Waiting jobs", number: true,
          cell: ([, state]) => (state.ready === null ? NOTHING : count(state.ready)) },
        { title: "Oldest waits", number: true, cell: ([, state]) => span(state.oldest_wait) },
        { title: "Why", cell: ([, { why, next_restart: next }]) =>
          [why, next && [" · next restart ", when(next, now)]] },
      ],
    }),
    Object.entries(fleet.kinds).flatMap(([kind, state]) => [slots(kind, state), exits(kind, state, now)]));
}

function slots(kind, { slots: all }) {
  const words = ({ pid, age, adopted }) =>
    ` ${pid === null ? "" : `process ${pid}, `}${span(age)}${adopted ? ", adopted" : ""}`;
  return all.length > 0 && h("ul.inline", { "aria-label": `Processes of ${kind}` }, all.map((slot) =>
    h("li", { "data-key": slot.slot },
      name(slot.slot), " ", badge(slot.phase, slot.phase === "running" ? "good" : "idle"),
      h("span.below", {}, words(slot)))));
}

function exits(kind, { exits: all }, now) {
  return all.length > 0 && h("details", { "data-key": `exits of ${kind}` },
    h("summary", {}, `${counted(all.length, "process", "processes")} of ${kind} ended`),
    all.map((exit) => h("div.exit", {},
      h("p", {}, name(exit.slot), " ", when(exit.at, now), `: ${exit.reason}`),
      exit.lines.length > 0 && h("pre", { tabindex: "0" }, exit.lines.join("\n")))));
}
