/** A form that enqueues a job of a task that the server knows. */

import { get, newKey, post } from "../api.js";
import { attempt, notify } from "../dialogs.js";
import { h } from "../dom.js";
import { heading, link } from "../parts.js";

const ONLY_SHOWS = "This server only shows; it changes nothing.";
const NO_TASKS = "The server knows no tasks. Start it with the app that declares them: mulligan serve APP";

export default {
  title: () => "Enqueue",
  load: () => get("/api/tasks"),
  view({ data: { tasks }, memory, overview, readOnly, redraw }) {
    if (readOnly || !tasks.length) return [heading("Enqueue"), h("p.empty", {}, readOnly ? ONLY_SHOWS : NO_TASKS)];
    memory.key ??= newKey();
    const task = tasks.find(({ name }) => name === memory.task) ?? tasks[0];
    return [heading("Enqueue"), form(task, tasks, memory, overview, redraw), outcome(memory.outcome)];
  },
};

function form(task, tasks, memory, overview, redraw) {
  const choose = (event) => {
    memory.task = event.currentTarget.value;
    redraw();
  };
  const send = async (event) => {
    event.preventDefault();
    const body = bodyOf(task, new FormData(event.currentTarget));
    const answer = await attempt(() => post("/api/jobs", body, memory.key));
    memory.key = newKey();
    if (!answer) return;
    memory.outcome = answer;
    notify(answer.created ? `Job ${answer.id} is enqueued.` : `Job ${answer.id} was there before.`);
    redraw();
  };
  return h("form.panel.enqueue", { onsubmit: send, "aria-label": "Enqueue a job" },
    labelled("Task", h("select", { name: "task", onchange: choose },
      tasks.map(({ name }) => h("option", { value: name, selected: name === task.name }, name)))),
    h("fieldset", { "data-key": task.name },
      h("legend", {}, "Arguments"),
      task.parameters.map((parameter) => labelled(parameter,
        h("input", { name: `argument ${parameter}`, autocomplete: "off", spellcheck: "false" }))),
      h("p.below", {}, task.parameters.length
        ? "JSON, or else text. An empty field is left to the task's default."
        : "The task takes none.")),
    h("fieldset", {},
      h("legend", {}, "Options"),
      labelled("Queue", h("input", { name: "queue", placeholder: task.queue, maxlength: 128 })),
      labelled("Region", h("input", {
        name: "region", placeholder: task.region, maxlength: 128, list: "known-regions",
      })),
      h("datalist", { id: "known-regions" }, Object.keys(overview.regions).map((value) => h("option", { value }))),
      labelled("Priority", h("select", { name: "priority" }, h("option", { value: "" }, "as the task says"),
        ["normal", "urgent"].map((value) => h("option", { value }, value)))),
      labelled("Delay, in seconds", h("input", { name: "delay", type: "number", min: "0", step: "any" })),
      labelled("Unique key", h("input", { name: "unique_key", maxlength: 128 }))),
    h("div.actions", {}, h("button.primary", { type: "submit" }, "Enqueue")));
}

const labelled = (label, input) => h("label", { "data-key": label }, h("span", {}, label), input);

function outcome(told) {
  if (!told) return null;
  const words = told.created ? "Enqueued: " : "It was there before: ";
  return h("p.explanation", { role: "status" }, words, link(["jobs", told.id], told.id));
}

function bodyOf(task, given) {
  const said = (field) => given.get(field)?.trim() ?? "";
  const options = ["queue", "region", "priority", "unique_key"].map((field) => [field, said(field)]);
  const delay = said("delay");
  const kwargs = task.parameters.map((parameter) => [parameter, said(`argument ${parameter}`)]);
  return {
    task: task.name,
    kwargs: Object.fromEntries(kwargs.filter(([, text]) => text).map(([name, text]) => [name, valueOf(text)])),
    ...Object.fromEntries(options.filter(([, value]) => value)),
    ...(delay && { delay: Number(delay) }),
  };
}

function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
