/** The last minute of each queue in each region. */

import { h } from "../dom.js";
import { NOTHING, count, percent, span } from "../format.js";
import { badge, facts, link, name, table } from "../parts.js";

/** The table, of one queue or of all. */
export function recentTable(overview, only = null) {
  const rows = Object.entries(overview.recent)
    .filter(([queue]) => only === null || queue === only)
    .flatMap(([queue, regions]) =>
      Object.entries(regions).map(([region, numbers]) => ({ queue, region, ...numbers })));
  const number = (title, cell) => ({ title, number: true, cell });
  const shown = table({
    caption: "Attempts of the last minute by queue and region",
    empty: "Nothing has run in the last minute.",
    key: ({ queue, region }) => JSON.stringify([queue, region]),
    rows,
    columns: [
      only === null && { title: "Queue", cell: (row) => link(["queues", row.queue], name(row.queue)) },
      { title: "Region", cell: (row) => name(row.region) },
      number("Started", (row) => count(row.started)),
      number("Success", (row) => percent(row.success_rate)),
      number("Retries", (row) => count(row.retries_started)),
      number("Retry success", (row) => percent(row.retry_success_rate)),
      number("Taken elsewhere", (row) => percent(row.retries_elsewhere)),
      number("Retry wait p99", (row) => span(row.retry_wait_p99)),
      number("Back after", (row) => span(row.retry_return_p50)),
      number("Time saved", (row) => (row.time_saved_mean === null ? NOTHING : signed(row.time_saved_mean))),
      number("Dead", (row) => count(row.dead)),
      number("Reclaimed", (row) => count(row.reclaimed)),
      { title: "Breaker", cell: (row) => badge(breaker(row, overview.now), row.breaker === "open" ? "bad" : "good") },
    ].filter(Boolean),
  });
  return rows.length ? [shown, meanings()] : shown;
}

/** What the columns count whose titles do not say it. */
const meanings = () => h("details.meanings", { "data-key": "meanings" },
  h("summary", {}, "What the columns mean"),
  facts([
    ["Taken elsewhere", "retries that another region took than the one where the job had failed"],
    ["Retry wait p99", "from the moment when a retry is due to its start; 99 of 100 retries wait no longer"],
    ["Back after", "from a failure to the start of its retry, backoff included; the median"],
    ["Time saved", "how much earlier a retry started than at the end of the lane of fresh jobs; the mean"],
    ["Dead", "jobs that failed for good"],
    ["Reclaimed", "running jobs taken back from workers that no longer answered; each is tried again"],
  ]));

const breaker = (row, now) =>
  row.next_probe_at === null ? row.breaker
    : row.next_probe_at > now ? `open, probe in ${span(row.next_probe_at - now)}` : "open, probe due";

const signed = (seconds) => (seconds < 0 ? `−${span(seconds)}` : span(seconds));
