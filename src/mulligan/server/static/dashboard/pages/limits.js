/** Every limit: what it allows, what it lets through, who waits for it, and until when it is paused. */

import { get, path, post } from "../api.js";
import { bar, sparkline } from "../charts.js";
import { askFor, attempt, notify } from "../dialogs.js";
import { h } from "../dom.js";
import { count, counted, span } from "../format.js";
import { badge, button, heading, name, table, when } from "../parts.js";

const SAMPLES = 150; // of five minutes, at one in two seconds
const FIELDS = [
  ["concurrency", "At a time"], ["rate", "Starts, or their cost"], ["per", "in so many seconds"], ["burst", "Burst, of a token bucket"],
];

export default {
  title: () => "Limits",
  load: () => get("/api/limits"),
  stale: (data, age) => age > 2000,
  view({ data: { limits, now: at, started }, now, memory, readOnly, reload }) {
    remember(limits, at, memory);
    return [
      heading("Limits", counted(limits.length, "limit")),
      table({
        caption: "Limits",
        empty: "No limit is stored. An app declares one with app.limit(\"openai\", rate=60, per=60), and its jobs name it.",
        key: (row) => row.name,
        rows: limits,
        columns: [
          { title: "Limit", cell: (row) => [h("strong.line", {}, name(row.name)), h("span.line.below", {}, saidBy(row))] },
          { title: "Allows", cell: (row) => allows(row.in_force) },
          { title: "Running", number: true, cell: (row) => count(row.running) },
          { title: "Waiting", number: true, cell: (row) => count(row.waiting) },
          { title: "Lets through", cell: (row) => letsThrough(row, memory.samples[row.name], Object.hasOwn(started, row.name) ? started[row.name] : 0) },
          { title: "Room", brief: true, cell: (row) => room(row, now) },
          { title: "State", cell: (row) => stateOf(row, now) },
          !readOnly && { title: "Change", cell: (row) => actions(row, reload) },
        ].filter(Boolean),
      }),
    ];
  },
};

/** Keeps what was used, for as long as the page is open. */
function remember(limits, at, memory) {
  memory.samples ??= {};
  if (memory.at === at) return;
  memory.at = at;
  memory.samples = Object.fromEntries(limits.map((row) => {
    const before = Object.hasOwn(memory.samples, row.name) ? memory.samples[row.name] : [];
    return [row.name, [...before, row.in_force?.rate ? row.used : row.running].slice(-SAMPLES)];
  }));
}

/** Whose word holds. */
function saidBy({ stored: { declared, set } }) {
  if (set) return declared ? `set by an operator; declared: ${allows(declared)}` : "set by an operator";
  return declared ? "declared" : "of its family";
}

/** A limit in words. */
export function allows(limit) {
  if (!limit) return "anything";
  const { rate, per = 1, burst, concurrency, home } = limit;
  return [
    rate && `${count(rate)} per ${span(per)}${burst ? ` in bursts of ${count(burst)}` : ""}`,
    concurrency && `${count(concurrency)} at a time`,
    home && `in shard ${home}`,
  ].filter(Boolean).join(", ");
}

/** How much of it is used now, and was since the page is open. */
function letsThrough({ in_force: limit, used, running }, samples, started) {
  const { rate, burst, per = 1, concurrency } = limit ?? {};
  const most = rate ? burst ?? rate : concurrency;
  if (!most) return "";
  const words = rate ? `${count(used)} of ${count(most)}${burst ? "" : ` in the last ${span(per)}`}` : `${count(running)} of ${count(most)} run`;
  return h("div.through", {}, bar(rate ? used : running, most, "fresh"), h("span.below", {}, words), started > 0 && h("span.below", {}, `${count(started)} started in the last minute`), sparkline(samples, "fresh"));
}

function room({ room_at: at, in_force: limit }, now) {
  if (at === null) return limit ? "when one ends" : "now";
  return at <= now ? "now" : when(at, now);
}

function stateOf({ paused_until: until, waiting, room_at: at }, now) {
  if (until !== null && until > now) return [badge("paused", "retry"), h("span.line.below", {}, "ends ", when(until, now))];
  return waiting > 0 && (at === null || at > now) ? badge("full", "delayed") : badge("open", "good");
}

/** What can be done with a limit; a family has no pause, its names have. */
function actions(row, reload) {
  const limit = row.name;
  const change = (word, body, what, told) => button(word, () => attempt(async () => {
    const given = await body();
    if (given === null) return;
    await post(path(...["api", "limits", limit, what].filter(Boolean)), given);
    notify(told);
    reload();
  }), "small", { "aria-label": `${word} ${limit}` });
  const nothing = async () => ({});
  const family = limit.endsWith("*");
  return h("div.actions", {},
    !family && row.paused_until === null && change("Pause", () => askPause(limit), "pause", `Nobody of ${limit} starts for now.`),
    !family && row.paused_until !== null && change("Resume", nothing, "resume", `Limit ${limit} is open again.`),
    change("Set", () => askSet(row), "", `Limit ${limit} is set, and holds at once.`),
    row.stored.set && change("Reset", nothing, "reset", `Limit ${limit} is what its app declares.`));
}

async function askPause(limit) {
  const text = "Nobody of it starts until then, in any region. Jobs that run go on.";
  const fields = [{ key: "seconds", label: "Seconds", value: 60, min: "0.001", step: "any", required: true }];
  const given = await askFor({ title: `Pause ${limit}?`, text, fields, action: "Pause" });
  return given && { seconds: Number(given.seconds) };
}

/** The numbers of a limit as they shall be; what is left empty is taken away. */
async function askSet({ name: limit, in_force: now }) {
  const text = "It wins over what apps declare until it is reset. Leave empty what it shall not bound.";
  const fields = FIELDS.map(([key, label]) => ({ key, label, value: now?.[key] ?? (key === "per" ? 1 : ""), min: key === "per" ? "0.001" : "1", step: key === "per" ? "any" : "1" }));
  const given = await askFor({ title: `Set ${limit}`, text, fields, action: "Set" });
  if (!given) return null;
  const number = (text) => (text === "" ? null : Number(text));
  const { concurrency, rate, per, burst } = given;
  return { concurrency: number(concurrency), rate: number(rate), burst: rate === "" ? null : number(burst), ...(per !== "" && { per: Number(per) }) };
}
