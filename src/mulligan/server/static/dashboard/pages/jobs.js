/** A page of the jobs that match, and what can be done with all of them. */

import { get } from "../api.js";
import { changeJobs, changeSelection } from "../change.js";
import { h } from "../dom.js";
import { byFlow } from "../flows.js";
import { argumentsOf, count, counted, runtimeOf, span } from "../format.js";
import { choosing, ordering, selectionBar } from "../lists.js";
import { badge, button, heading, link, name, table, when } from "../parts.js";

const STATUSES = ["pending", "processing", "done", "failed", "cancelled"];
const FIELDS = ["status", "queue", "region", "task", "text"];
const CHANGES = {
  pending: ["cancel"], processing: ["cancel"],
  failed: ["replay", "purge"], done: ["purge"], cancelled: ["purge"],
};
const VERBS = { cancel: "Cancel", replay: "Replay", purge: "Purge" };
const LIMIT = 50;

export default {
  title: () => "Jobs",
  load: ({ query }) => get("/api/jobs", { ...selected(query), limit: LIMIT, after: query.get("after") ?? "" }),
  view({ data, route, memory, now, overview, readOnly, reload, redraw }) {
    const selection = selected(route.query);
    const changes = readOnly || !data.jobs.length ? [] : (CHANGES[selection.status] ?? []);
    const order = ordering(memory, redraw);
    const { rows, title } = order.chosen ? { rows: data.jobs } : byFlow(data.jobs, memory, redraw);
    const chosen = choosing({ memory, rows, key: (job) => job.id, words: (job) => job.id, redraw });
    return [
      heading("Jobs", null, [
        changes.map((what) => button(`${VERBS[what]} all that match`, async () => {
          if (await changeSelection(what, selection)) reload();
        }, what === "replay" ? "plain" : "danger")),
        button("Refresh", reload)]),
      filters(selection, overview),
      table({
        caption: "Jobs, newest first unless sorted by a column",
        empty: FIELDS.some((field) => selection[field]) ? "No job matches." : "There are no jobs yet.",
        key: (job) => job.id,
        rows,
        order,
        title,
        columns: [!readOnly && chosen.column, ...columns(now)].filter(Boolean),
      }),
      h("nav.pager", { "aria-label": "Pages of jobs" },
        route.query.get("after") && link(["jobs"], "First page", selection),
        data.after && link(["jobs"], `Next ${LIMIT}`, { ...selection, after: data.after })),
      chosen.rows.length > 0 && selectionBar(`${counted(chosen.rows.length, "job")} chosen`,
        bulkActions(chosen, reload)),
    ];
  },
};

const columns = (now) => [
  { title: "Job", by: (job) => job.task, cell: (job) => [
    h("strong.line", {}, link(["jobs", job.id], name(job.task))), h("span.id.line", {}, name(job.id))] },
  { title: "Arguments", cell: ({ body }) => {
    const text = argumentsOf(body);
    return h("span.arguments", { title: text }, text);
  } },
  { title: "Queue", by: (job) => job.queue, cell: (job) => [
    h("span.line", {}, link(["queues", job.queue], name(job.queue))), h("span.below.line", {}, name(job.region))] },
  { title: "Status", brief: true, by: (job) => job.status, cell: (job) => badge(job.status) },
  { title: "Retries", number: true, by: (job) => job.retry_count, cell: (job) => count(job.retry_count) },
  { title: "Enqueued", brief: true, by: (job) => job.created_at, cell: (job) => when(job.created_at, now) },
  { title: "Ended", brief: true, by: (job) => job.ended_at, cell: (job) => when(job.ended_at, now) },
  { title: "Runtime", number: true, by: (job) => runtimeOf(job, now), cell: (job) => span(runtimeOf(job, now)) },
  { title: "Last failure", by: (job) => job.last_failure_reason, cell: ({ last_failure_reason: reason }) =>
    reason && h("span.failure", { title: reason }, reason) },
];

/** A button for each change that some of the chosen jobs can be given. */
function bulkActions(chosen, reload) {
  return Object.keys(VERBS).map((what) => {
    const fit = chosen.rows.filter((job) => CHANGES[job.status].includes(what));
    return fit.length > 0 && button(`${VERBS[what]} ${count(fit.length)}`, async () => {
      if (await changeJobs(what, fit.map((job) => job.id), fit.map((job) => `${job.task} ${job.id}`))) {
        chosen.clear();
        reload();
      }
    }, what === "replay" ? "primary" : "danger");
  });
}

function selected(query) {
  return Object.fromEntries(FIELDS.map((field) => [field, query.get(field) ?? ""]).filter(([, value]) => value));
}

function filters(selection, overview) {
  const apply = (event) => {
    event.preventDefault();
    const given = [...new FormData(event.currentTarget)].map(([field, value]) => [field, value.trim()]);
    const query = new URLSearchParams(given.filter(([, value]) => value));
    const id = query.get("id");
    query.delete("id");
    location.hash = id ? `#/jobs/${encodeURIComponent(id)}` : `#/jobs?${query}`;
  };
  const field = (label, input) => h("label", {}, h("span", {}, label), input);
  const text = (key, label, hint, options = null) => field(label, [
    h("input", {
      name: key, value: selection[key] ?? "", placeholder: hint, list: options && `known-${key}`,
      autocomplete: "off", spellcheck: "false", maxlength: key === "text" ? null : 128,
    }),
    options && h("datalist", { id: `known-${key}` }, options.map((value) => h("option", { value }))),
  ]);
  return h("form.filters", { role: "search", "aria-label": "Find jobs", onsubmit: apply },
    field("Status", h("select", { name: "status" },
      h("option", { value: "" }, "any"),
      STATUSES.map((status) => h("option", { value: status, selected: status === selection.status }, status)))),
    text("queue", "Queue", "any", Object.keys(overview.queues)),
    text("region", "Region", "any", Object.keys(overview.regions)),
    text("task", "Task", "any"),
    text("text", "Error contains", "any text"),
    text("id", "Job id", "opens it"),
    h("div.actions", {}, h("button.primary", { type: "submit" }, "Find"), link(["jobs"], "Clear")));
}
