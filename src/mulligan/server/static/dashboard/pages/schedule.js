/** One schedule: a form to store or change it, which shows its next five ticks before it is saved. */

import { get, path, post } from "../api.js";
import { notify } from "../dialogs.js";
import { h } from "../dom.js";
import { count, json, span, time } from "../format.js";
import { facts, heading, link, name, panel, when } from "../parts.js";
import { actions, stateOf } from "./schedules.js";

const OPTIONS = ["queue", "region", "priority", "unique_key", "fairness_key", "expires"];
const PRIORITIES = ["normal", "retry", "urgent"];
const WAIT = 250;
const MISSED = { one: "one run for all of them", none: "none", all: "all, at most 1,000" };
const DECLARED = "It is declared by its task: change cron= or every= there. It can be paused and run here.";

export default {
  title: ({ name: schedule }) => (schedule ? `Schedule ${schedule}` : "New schedule"),
  async load({ name: schedule }) {
    const [stored, { tasks }] = await Promise.all([
      schedule ? get(path("api", "schedules", schedule)) : null, get("/api/tasks")]);
    return { stored, tasks };
  },
  view({ data: { stored, tasks }, now, memory, readOnly, reload, redraw }) {
    const leave = () => (location.hash = "#/schedules");
    return [
      heading(stored?.name ?? "New schedule", stored && stateOf(stored),
        stored && !readOnly ? [actions(stored, reload, leave)] : []),
      stored?.problem && h("p.problem", { role: "alert" }, stored.problem),
      h("div.columns", {},
        stored && panel("State", about(stored, now)),
        readOnly || stored?.declared
          ? panel("Next ticks", list(stored?.next_ticks ?? []), stored?.declared && h("p.below", {}, DECLARED))
          : form(stored, tasks, memory, redraw, reload)),
    ];
  },
};

function about(stored, now) {
  return facts([
    ["task", link(["tasks", stored.task], name(stored.task))],
    ["next tick", when(stored.next_tick, now)],
    ["last tick", when(stored.last_tick, now)],
    ["ticks", count(stored.ticks)],
    ["last tick was late by", span(stored.late)],
    ["changed", when(stored.changed_at, now)],
    ["missed ticks", MISSED[stored.catch_up]],
    ["its jobs", link(["jobs"], "of this task", { task: stored.task })],
  ]);
}

const list = (ticks) => ticks.length
  ? h("ol.plain", {}, ticks.map((tick) => h("li", {}, h("time", { datetime: new Date(tick * 1000).toISOString() }, time(tick)))))
  : h("p.empty", {}, "It does not tick.");

function form(stored, tasks, memory, redraw, reload) {
  memory.kind ??= stored?.every ? "every" : "cron";
  const read = (target) => Object.fromEntries([...new FormData(target)].map(([key, value]) => [key, value.trim()]));
  const look = (target) => {
    clearTimeout(memory.timer);
    memory.timer = setTimeout(() => preview(timingOf(read(target), memory), memory, redraw), WAIT);
  };
  const choose = ({ currentTarget }) => {
    memory.kind = currentTarget.value;
    memory.problems = {};
    redraw();
    look(currentTarget.form);
  };
  const save = async (event) => {
    event.preventDefault();
    const given = read(event.currentTarget);
    memory.problems = {};
    try {
      const schedule = stored?.name ?? given.name;
      const call = callOf(given);
      const same = stored && JSON.stringify(call) === JSON.stringify(callOf(textsOf(stored)));
      const body = { ...timingOf(given, memory), catch_up: given.catch_up, ...(same ? {} : call) };
      await post(path("api", "schedules", schedule), body);
      notify(`Schedule ${schedule} is stored.`);
      if (stored) reload();
      else location.hash = `#/schedules/${encodeURIComponent(schedule)}`;
    } catch (problem) {
      if (!problem.message) throw problem;
      memory.problems = { [problem.field ?? ""]: problem.message };
      redraw();
      document.querySelector("[aria-invalid]")?.focus();
    }
  };
  if (stored && memory.ticks === undefined) memory.ticks = stored.next_ticks;
  const was = stored ? textsOf(stored) : {};
  const field = (key, label, input) => {
    const wrong = memory.problems?.[key];
    if (wrong) input.setAttribute("aria-invalid", "true");
    return h("label", { "data-key": key }, h("span", {}, label), input, wrong && h("span.wrong", { role: "alert" }, wrong));
  };
  const text = (key, more = {}) => h("input", { name: key, value: was[key] ?? "", maxlength: 128, autocomplete: "off", spellcheck: "false", ...more });
  const area = (key, placeholder) => h("textarea", { name: key, placeholder, rows: 2, spellcheck: "false" }, was[key] ?? "");
  const choice = (key, options, chosen, more = {}) => h("select", { name: key, ...more },
    options.map(([value, words]) => h("option", { value, selected: value === chosen }, words)));
  return h("form.panel.enqueue", { onsubmit: save, oninput: ({ currentTarget }) => look(currentTarget), "aria-label": "Schedule" },
    !stored && field("name", "Name", text("name", { required: true })),
    h("fieldset", { "data-key": "timing" },
      h("legend", {}, "When"),
      field("kind", "Runs", choice("kind", [["cron", "by a cron expression"], ["every", "every so many seconds"]], memory.kind, { onchange: choose })),
      memory.kind === "cron"
        ? [field("cron", "Cron: minute, hour, day, month, weekday", text("cron", { required: true, placeholder: "0 9 * * 1-5" })),
          field("timezone", "Time zone", text("timezone", { placeholder: "UTC" }))]
        : field("every", "Seconds", text("every", { required: true, type: "number", min: "1", step: "any" })),
      field("catch_up", "Missed ticks that are made up for", choice("catch_up", Object.entries(MISSED), stored?.catch_up ?? "one"))),
    h("fieldset", { "data-key": "ticks", "aria-live": "polite" },
      h("legend", {}, "Next five ticks, by this browser's clock"),
      memory.tickProblem ? h("p.wrong", { role: "alert" }, memory.tickProblem)
        : memory.ticks ? list(memory.ticks) : h("p.below", {}, "Say when it runs.")),
    h("fieldset", { "data-key": "call" },
      h("legend", {}, "Call"),
      field("task", "Task", text("task", { required: true, list: "known-tasks" })),
      h("datalist", { id: "known-tasks" }, tasks.map(({ name: value }) => h("option", { value }))),
      field("args", "Positional arguments, a JSON list", area("args", "[]")),
      field("kwargs", "Named arguments, a JSON object", area("kwargs", "{}"))),
    h("fieldset", { "data-key": "options" },
      h("legend", {}, "Options"),
      field("queue", "Queue", text("queue", { placeholder: "as the task says" })),
      field("region", "Region", text("region", { placeholder: "as the task says" })),
      field("priority", "Priority", choice("priority", [["", "as the task says"], ...PRIORITIES.map((word) => [word, word])], was.priority ?? "")),
      field("expires", "Expires, seconds after the tick", text("expires", { type: "number", min: "0.001", step: "any" })),
      field("unique_key", "Unique key: a tick is skipped while a job has it", text("unique_key")),
      field("fairness_key", "Fairness key", text("fairness_key"))),
    memory.problems?.[""] && h("p.problem", { role: "alert" }, memory.problems[""]),
    h("div.actions", {}, h("button.primary", { type: "submit" }, stored ? "Save" : "Store")));
}

/** What a stored schedule has in the fields of the form. */
function textsOf({ task, args, kwargs, queue, options, cron, every, timezone }) {
  const priority = PRIORITIES[options.priority ?? 0];
  return {
    cron, every, timezone: timezone ?? "", task, queue, region: options.region ?? "", priority,
    args: args.length ? json(args) : "", kwargs: Object.keys(kwargs).length ? json(kwargs) : "",
    expires: String(options.expires ?? ""), unique_key: options.unique_key ?? "",
    fairness_key: options.fairness_key ?? "",
  };
}

function timingOf({ cron, every, timezone }, { kind }) {
  if (kind === "every") return { every: Number(every || 0) };
  return timezone ? { cron, timezone } : { cron };
}

function callOf(given) {
  const options = OPTIONS.filter((key) => given[key]).map((key) => [key, key === "expires" ? Number(given[key]) : given[key]]);
  return { task: given.task, args: parsed(given.args, "args", []), kwargs: parsed(given.kwargs, "kwargs", {}), ...Object.fromEntries(options) };
}

function parsed(text, field, otherwise) {
  if (!text) return otherwise;
  try {
    return JSON.parse(text);
  } catch {
    throw Object.assign(new Error(`${field} must be JSON, such as ${field === "args" ? '[1, "text"]' : '{"key": true}'}`), { field });
  }
}

/** Asks for the ticks of a timing that is not stored yet. */
async function preview(timing, memory, redraw) {
  if (!timing.cron && !timing.every) return;
  try {
    memory.ticks = (await get("/api/ticks", timing)).ticks;
    memory.tickProblem = null;
  } catch (problem) {
    memory.tickProblem = problem.message;
  }
  redraw();
}
