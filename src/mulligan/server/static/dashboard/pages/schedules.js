/** Every schedule: a call that runs by itself, when it runs next, and how it stands. */

import { get, path, post } from "../api.js";
import { attempt, confirm, notify } from "../dialogs.js";
import { h } from "../dom.js";
import { argumentsOf, count, counted, span } from "../format.js";
import { badge, button, heading, link, name, table, when } from "../parts.js";

const KINDS = { active: "good", paused: "retry", undeclared: "bad" };

export default {
  title: () => "Schedules",
  load: () => get("/api/schedules"),
  stale: (data, age) => age > 2000,
  view({ data: { schedules }, now, readOnly, reload }) {
    return [
      heading("Schedules", counted(schedules.length, "schedule"), [
        !readOnly && link(["schedules", ""], "New schedule")]),
      table({
        caption: "Schedules",
        empty: "No call runs by itself yet. Store a schedule here, or give a task cron= or every=.",
        key: (row) => row.name,
        rows: schedules,
        columns: [
          { title: "Schedule", cell: (row) => [
            h("strong.line", {}, link(["schedules", row.name], name(row.name))),
            row.problem && h("span.wrong.line", {}, row.problem)] },
          { title: "Task", cell: (row) => [
            h("span.line", {}, link(["tasks", row.task], name(row.task))),
            h("span.arguments.line", {}, argumentsOf(row))] },
          { title: "Runs", cell: timing },
          { title: "Next tick", brief: true, cell: (row) => when(row.next_tick, now) },
          { title: "Last tick", brief: true, cell: (row) => when(row.last_tick, now) },
          { title: "Ticks", number: true, cell: (row) => count(row.ticks) },
          { title: "State", cell: stateOf },
          !readOnly && { title: "Change", cell: (row) => actions(row, reload) },
        ].filter(Boolean),
      }),
    ];
  },
};

/** When a schedule runs, in words. */
export function timing({ cron, every, timezone }) {
  return cron === null ? `every ${span(every)}` : h("span.id", {}, timezone === "UTC" ? cron : `${cron} · ${timezone}`);
}

/** Whether it ticks, and whose it is. */
export const stateOf = ({ state, declared }) => [badge(state, KINDS[state]), declared && " declared by its task"];

/** What can be done with a schedule; on its own page it can be removed, and is `gone` then. */
export function actions({ name: schedule, state, declared }, reload, gone = null) {
  const kind = (what) => (what === "remove" ? "danger" : gone ? "plain" : "small");
  const change = (word, what, told, then = reload) => button(word, () => attempt(async () => {
    if (what === "remove" && !(await sure(schedule))) return;
    const answer = await post(path("api", "schedules", schedule, what));
    notify(told(answer));
    then();
  }), kind(what), { "aria-label": `${word} ${schedule}` });
  return h("div.actions", {},
    change("Run now", "run", ({ id }) => `Job ${id} is enqueued.`),
    state === "paused"
      ? change("Resume", "resume", () => `Schedule ${schedule} ticks again.`)
      : change("Pause", "pause", () => `Schedule ${schedule} is paused; its next tick is withdrawn.`),
    gone && (!declared || state === "undeclared") && change("Remove", "remove", () => `Schedule ${schedule} is removed.`, gone));
}

function sure(schedule) {
  const text = "Its next tick is withdrawn. Jobs that wait or run go on.";
  return confirm({ title: `Remove schedule ${schedule}?`, text, action: "Remove", danger: true });
}
