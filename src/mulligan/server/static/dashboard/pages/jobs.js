/** A page of the jobs that match, and what can be done with all of them. */

import { get } from "../api.js";
import { changeSelection } from "../changing.js";
import { h } from "../dom.js";
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
  view({ data, route, now, overview, readOnly, reload }) {
    const selection = selected(route.query);
    const changes = readOnly || !data.jobs.length ? [] : (CHANGES[selection.status] ?? []);
    return [
      heading("Jobs", null, [
        changes.map((what) => button(`${VERBS[what]} all that match`, async () => {
          if (await changeSelection(what, selection)) reload();
        }, what === "replay" ? "plain" : "danger")),
        button("Refresh", reload)]),
      filters(selection, overview),
      table({
        caption: "Jobs, newest first",
        empty: FIELDS.some((field) => selection[field]) ? "No job matches." : "There are no jobs yet.",
        key: (job) => job.id,
        rows: data.jobs,
        columns: [
          { title: "Job", cell: (job) => link(["jobs", job.id], name(job.id)) },
          { title: "Status", cell: (job) => badge(job.status) },
          { title: "Task", cell: (job) => name(job.task) },
          { title: "Queue", cell: (job) => link(["queues", job.queue], name(job.queue)) },
          { title: "Region", cell: (job) => name(job.region) },
          { title: "Retries", number: true, cell: (job) => String(job.retry_count) },
          { title: "Enqueued", cell: (job) => when(job.created_at, now) },
          { title: "Last failure", cell: ({ last_failure_reason: reason }) =>
            reason && h("span.failure", { title: reason }, reason) },
        ],
      }),
      h("nav.pager", { "aria-label": "Pages of jobs" },
        route.query.get("after") && link(["jobs"], "First page", selection),
        data.after && link(["jobs"], `Next ${LIMIT}`, { ...selection, after: data.after })),
    ];
  },
};

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
