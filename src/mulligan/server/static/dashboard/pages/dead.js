/** Dead letters, grouped by what they died of. */

import { get } from "../api.js";
import { changeJobs } from "../change.js";
import { h } from "../dom.js";
import { count, counted } from "../format.js";
import { choosing, ordering, selectionBar } from "../lists.js";
import { button, heading, link, name, sum, table, when } from "../parts.js";

export default {
  title: () => "Dead letters",
  load: () => get("/api/dead"),
  view({ data, memory, now, readOnly, reload, redraw }) {
    const rows = data.groups;
    const words = (group) => `${counted(group.count, "job")}: ${group.error}`;
    const chosen = choosing({ memory, rows, key: keyOf, words, redraw });
    const act = (what) => async () => {
      const ids = chosen.rows.flatMap((group) => group.ids);
      if (await changeJobs(what, ids, chosen.rows.map(inWords))) {
        chosen.clear();
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
        order: ordering(memory, redraw),
        columns: [
          !readOnly && chosen.column,
          { title: "Error", by: (group) => group.error, cell: errorOf },
          { title: "Task", by: (group) => group.task, cell: (group) => link(["tasks", group.task], name(group.task)) },
          { title: "Queue", by: (group) => group.queue, cell: (group) => link(["queues", group.queue], name(group.queue)) },
          { title: "Jobs", number: true, by: (group) => group.count, cell: (group) => listed(group) },
          { title: "Newest", brief: true, by: (group) => group.newest_at, cell: (group) => when(group.newest_at, now) },
          { title: "Example", cell: (group) => link(["jobs", group.ids[0]], name(group.ids[0])) },
        ].filter(Boolean),
      }),
      chosen.rows.length > 0 && selectionBar(
        `${counted(sum(chosen.rows, (group) => group.ids.length), "job")} in ${counted(chosen.rows.length, "group")}`,
        [button("Replay", act("replay"), "primary"), button("Purge", act("purge"), "danger")]),
    ];
  },
};

const keyOf = (group) => JSON.stringify([group.queue, group.task, group.error]);

const listed = (group) =>
  link(["jobs"], count(group.count), { status: "failed", queue: group.queue, task: group.task });

function errorOf({ error, example }) {
  return h("div.error", {},
    h("strong", {}, error || "no message"), example !== error && h("span.below", {}, example));
}

function howMany({ groups, looked_at: lookedAt, complete }) {
  const words = `${counted(sum(groups, (group) => group.count), "job")} in ${counted(groups.length, "group")}`;
  return complete ? words : `${words}, of the newest ${count(lookedAt)}; there are more`;
}

function inWords(group) {
  const part = group.ids.length < group.count ? `the newest ${count(group.ids.length)} of ` : "";
  return `${part}${count(group.count)}: ${group.task} in ${group.queue}: ${group.error}`;
}
