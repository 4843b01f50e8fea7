/** Dead letters, grouped by what they died of. */

import { get } from "../api.js";
import { changeJobs } from "../changing.js";
import { h } from "../dom.js";
import { count, counted } from "../format.js";
import { button, heading, link, name, sum, table, when } from "../parts.js";

export default {
  title: () => "Dead letters",
  load: () => get("/api/dead"),
  view({ data, memory, now, readOnly, reload, redraw }) {
    memory.chosen ??= new Set();
    const rows = data.groups;
    const chosen = rows.filter((group) => memory.chosen.has(keyOf(group)));
    const act = (what) => async () => {
      const ids = chosen.flatMap((group) => group.ids);
      if (await changeJobs(what, ids, chosen.map(inWords))) {
        memory.chosen.clear();
        reload();
      }
    };
    return [
      heading("Dead letters", h("span.below", {}, howMany(data)), [button("Refresh", reload)]),
      table({
        caption: "Dead letters by error, the largest group first",
        empty: "No job has failed for good.",
        key: keyOf,
        rows,
        columns: [
          !readOnly && { title: "Choose", cell: (group) => choice(group, memory.chosen, redraw) },
          { title: "Error", cell: errorOf },
          { title: "Task", cell: (group) => name(group.task) },
          { title: "Queue", cell: (group) => link(["queues", group.queue], name(group.queue)) },
          { title: "Jobs", number: true, cell: (group) => listed(group) },
          { title: "Newest", cell: (group) => when(group.newest_at, now) },
          { title: "Look at", cell: (group) => link(["jobs", group.ids[0]], name(group.ids[0])) },
        ].filter(Boolean),
      }),
      chosen.length > 0 && h("div.selection", { role: "group", "aria-label": "What was chosen" },
        h("span", { "aria-live": "polite" },
          `${counted(sum(chosen, (group) => group.ids.length), "job")} in ${counted(chosen.length, "group")}`),
        button("Replay", act("replay"), "primary"), button("Purge", act("purge"), "danger")),
    ];
  },
};

const keyOf = (group) => JSON.stringify([group.queue, group.task, group.error]);

const listed = (group) =>
  link(["jobs"], count(group.count), { status: "failed", queue: group.queue, task: group.task });

function errorOf({ error, example }) {
  return h("div.error", {},
    h("strong", {}, error || "no words"), example !== error && h("span.below", {}, example));
}

function howMany({ groups, looked_at: lookedAt, complete }) {
  const words = `${counted(sum(groups, (group) => group.count), "job")} in ${counted(groups.length, "group")}`;
  return complete ? words : `${words}, of the newest ${count(lookedAt)}; there are more`;
}

function inWords(group) {
  const part = group.ids.length < group.count ? `the newest ${count(group.ids.length)} of ` : "";
  return `${part}${count(group.count)}: ${group.task} in ${group.queue}: ${group.error}`;
}

function choice(group, chosen, redraw) {
  const toggle = (event) => {
    if (event.currentTarget.checked) chosen.add(keyOf(group));
    else chosen.delete(keyOf(group));
    redraw();
  };
  return h("input", {
    type: "checkbox", checked: chosen.has(keyOf(group)), onchange: toggle,
    "aria-label": `Choose ${counted(group.count, "job")}: ${group.error}`,
  });
}
