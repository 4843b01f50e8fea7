/** A form that enqueues a job: by the signature of a task that the server knows, or as JSON. */

import { get, newKey, post } from "../api.js";
import { notify } from "../dialogs.js";
import { h } from "../dom.js";
import { heading, link } from "../parts.js";

const ONLY_SHOWS = "This server only shows; it changes nothing.";
const NO_TASKS = "The server knows no tasks, so arguments are JSON. With mulligan serve APP the form has a field for each.";
const OPTIONS = ["queue", "region", "priority", "unique_key", "delay"];

export default {
  title: () => "Enqueue",
  load: () => get("/api/tasks"),
  view({ data: { tasks }, route, memory, overview, readOnly, redraw }) {
    if (readOnly) return [heading("Enqueue"), h("p.empty", {}, ONLY_SHOWS)];
    memory.key ??= newKey();
    memory.task ??= route.query.get("task");
    const task = tasks.find(({ name }) => name === memory.task) ?? tasks[0] ?? null;
    return [
      heading("Enqueue"),
      !task && h("p.empty", {}, NO_TASKS),
      form(task, tasks, memory, overview, redraw), outcome(memory.outcome),
    ];
  },
};

function form(task, tasks, memory, overview, redraw) {
  const fields = task ? argumentFields(task) : jsonFields();
  const choose = (event) => {
    Object.assign(memory, { task: event.currentTarget.value, problems: {} });
    redraw();
  };
  const send = async (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    memory.problems = {};
    memory.outcome = null;
    try {
      const body = { ...callOf(task, fields, given), ...optionsOf(given) };
      const answer = await post("/api/jobs", body, memory.key);
      memory.outcome = answer;
      notify(answer.created ? `Job ${answer.id} is enqueued.` : `Job ${answer.id} was there before.`);
    } catch (problem) {
      if (!problem.message) throw problem;
      const field = problem.field ?? fieldNamed(problem.message, [...fields.map(({ name }) => name), ...OPTIONS]);
      memory.problems = { [field]: problem.message };
    }
    memory.key = newKey();
    redraw();
    document.querySelector("[aria-invalid]")?.focus();
  };
  const labelled = (name, label, input) => fieldView(name, label, input, memory.problems?.[name]);
  return h("form.panel.enqueue", { onsubmit: send, "aria-label": "Enqueue a job" },
    task && labelled("task", "Task", h("select", { name: "task", onchange: choose },
      tasks.map(({ name }) => h("option", { value: name, selected: name === task.name }, name)))),
    h("fieldset", { "data-key": task?.name ?? "" },
      h("legend", {}, task ? "Arguments" : "Call"),
      fields.map(({ name, label, input }) => labelled(name, label, input)),
      h("p.below", {}, !task ? "The arguments must be what the task takes."
        : fields.length ? "A field that is left empty is left to the task's default." : "The task takes none.")),
    h("fieldset", { "data-key": "options" },
      h("legend", {}, "Options"),
      labelled("queue", "Queue", h("input", { name: "queue", placeholder: task?.queue ?? "default", maxlength: 128 })),
      labelled("region", "Region", h("input", {
        name: "region", placeholder: !task || task.region === "*" ? "any" : task.region, maxlength: 128, list: "known-regions",
      })),
      h("datalist", { id: "known-regions" }, Object.keys(overview.regions).map((value) => h("option", { value }))),
      labelled("priority", "Priority", h("select", { name: "priority" }, h("option", { value: "" }, "as the task says"),
        ["normal", "urgent"].map((value) => h("option", { value }, value)))),
      labelled("delay", "Delay, in seconds", h("input", { name: "delay", type: "number", min: "0", step: "any" })),
      labelled("unique_key", "Unique key", h("input", { name: "unique_key", maxlength: 128 }))),
    memory.problems?.[""] && h("p.problem", { role: "alert" }, memory.problems[""]),
    h("div.actions", {}, h("button.primary", { type: "submit" }, "Enqueue")));
}

function fieldView(name, label, input, problem) {
  const id = `problem-${name}`;
  if (problem) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", id);
  }
  return h("label", { "data-key": name }, h("span", {}, label), input,
    problem && h("span.wrong", { id, role: "alert" }, problem));
}

/** A field for each parameter, fit for its type; `read(text)` gives the value that is sent. */
function argumentFields({ parameters }) {
  return parameters.map((parameter) => {
    const { name, type, required } = parameter;
    const schema = plainSchema(parameter.schema);
    const kind = kindOf(schema, parameter.given);
    const label = h("span", {}, h("strong", {}, name), type && `: ${type}`, required && " (required)");
    return { name, label, given: parameter.given, read: READ[kind] ?? readJson, input: inputOf(kind, schema, parameter) };
  });
}

/** The schema that a reference leads to; of one that may be null, that of its other values. */
function plainSchema(schema, definitions = schema.$defs ?? {}) {
  const target = schema.$ref && definitions[schema.$ref.split("/").at(-1)];
  if (target) return plainSchema(target, definitions);
  const others = schema.anyOf?.filter(({ type }) => type !== "null") ?? [];
  return others.length === 1 ? plainSchema(others[0], definitions) : schema;
}

/** What an object looks like: its fields that are required. */
function sketch({ properties = {}, required = [] }) {
  const fields = required.filter((name) => name in properties).map((name) => `"${name}": …`);
  return `{${fields.join(", ")}}`;
}

function kindOf(schema, given) {
  if (given === "rest" || given === "extra") return "json";
  if (schema.enum?.every((value) => typeof value === "string")) return "choice";
  return ["boolean", "integer", "number", "string"].includes(schema.type) ? schema.type : "json";
}

const READ = { string: (text) => text, choice: (text) => text };

function readJson(text, name) {
  try {
    return JSON.parse(text);
  } catch {
    throw Object.assign(new Error(`${name} must be JSON, such as 1, "text", [1, 2] or {"key": true}`), { field: name });
  }
}

function inputOf(kind, schema, { name, required, default: value, given }) {
  const attributes = { name: `argument ${name}`, autocomplete: "off", spellcheck: "false", required };
  const example = { rest: "[ ]", extra: "{ }" }[given] ?? (schema.type === "object" ? sketch(schema) : "");
  const placeholder = value === undefined ? example : kind === "string" ? String(value ?? "") : JSON.stringify(value);
  const option = (each) => h("option", { value: each }, each);
  const unset = h("option", { value: "" }, value === undefined ? "–" : `default: ${placeholder}`);
  if (kind === "boolean") return h("select", attributes, unset, ["true", "false"].map(option));
  if (kind === "choice") return h("select", attributes, unset, schema.enum.map(option));
  if (kind === "json") return h("textarea", { ...attributes, placeholder: placeholder || "JSON", rows: 2 });
  const number = kind === "string" ? {} : { type: "number", step: kind === "integer" ? "1" : "any" };
  return h("input", { ...attributes, ...number, placeholder });
}

/** What a server without an app takes. */
function jsonFields() {
  const area = (name, placeholder) => h("textarea", { name: `argument ${name}`, placeholder, rows: 2, spellcheck: "false" });
  const task = h("input", { name: "argument task", required: true, maxlength: 128, autocomplete: "off", spellcheck: "false" });
  return [
    { name: "task", label: "Task", input: task, read: (text) => text },
    { name: "args", label: "Positional arguments, a JSON list", input: area("args", "[]"), read: readJson },
    { name: "kwargs", label: "Named arguments, a JSON object", input: area("kwargs", "{}"), read: readJson },
  ];
}

function callOf(task, fields, given) {
  const text = (name) => given.get(`argument ${name}`)?.trim() ?? "";
  const filled = fields.filter(({ name }) => text(name)).map((field) => [field, field.read(text(field.name), field.name)]);
  if (!task) return Object.fromEntries(filled.map(([{ name }, value]) => [name, value]));
  const of = (how) => filled.filter(([field]) => how.includes(field.given));
  const rest = of(["rest"]).flatMap(([, value]) => value);
  // With values for *args, everything that can be is passed by position.
  const byPosition = rest.length ? ["positional", "either"] : ["positional"];
  return {
    task: task.name,
    args: [...of(byPosition).map(([, value]) => value), ...rest],
    kwargs: Object.assign({}, ...of(["extra"]).map(([, value]) => value),
      Object.fromEntries(filled.filter(([field]) => ![...byPosition, "rest", "extra"].includes(field.given))
        .map(([{ name }, value]) => [name, value]))),
  };
}

function optionsOf(given) {
  const said = OPTIONS.map((field) => [field, given.get(field)?.trim() ?? ""]).filter(([, value]) => value);
  return Object.fromEntries(said.map(([field, value]) => [field, field === "delay" ? Number(value) : value]));
}

/** The field that a refusal names first; none if it names none. */
function fieldNamed(message, names) {
  const at = (name) => message.search(new RegExp(`(?<![\\w-])${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\w-])`));
  const found = names.map((name) => [at(name), name]).filter(([position]) => position >= 0);
  return found.sort(([one], [other]) => one - other)[0]?.[1] ?? "";
}

function outcome(told) {
  if (!told) return null;
  const words = told.created ? "Enqueued: " : "It was there before: ";
  return h("p.explanation", { role: "status" }, words, link(["jobs", told.id], told.id));
}
