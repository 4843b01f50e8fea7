/** Jobs of one chain or gather stand together in a list, under a title; of many the first few are shown. */

import { h } from "./dom.js";
import { count, counted } from "./format.js";
import { button, name } from "./parts.js";

const SHOWN = 3;
const ALL_OF = 5; // so many are shown as they are

/** The rows by flow, at the place of the flow's first row; `title(row)` is the title of a flow at its first row. */
export function byFlow(rows, memory, redraw) {
  memory.flows ??= new Set();
  const groups = new Map();
  for (const job of rows) {
    const root = rootOf(job) ?? `job ${job.id}`;
    groups.set(root, [...(groups.get(root) ?? []), job]);
  }
  const titles = new Map();
  const shown = [...groups].flatMap(([root, jobs]) => {
    const few = jobs.length <= ALL_OF || memory.flows.has(root) ? jobs : jobs.slice(0, SHOWN);
    if (jobs.length > 1) titles.set(jobs[0], titleOf(root, jobs, few.length, memory, redraw));
    return few;
  });
  return { rows: shown, title: (job) => titles.get(job) ?? null };
}

/** What all jobs of a flow are named after; null of a job that is in none. */
function rootOf({ body }) {
  const flow = body?.flow;
  if (!flow?.root) return null;
  return flow.awaited_by ? flow.awaited_by.replace(/\.\d+$/, "") : flow.root;
}

function titleOf(root, jobs, shown, memory, redraw) {
  const showAll = () => {
    memory.flows.add(root);
    redraw();
  };
  const statuses = Map.groupBy(jobs, ({ status }) => status);
  const words = [...statuses].map(([status, some]) => `${count(some.length)} ${status}`).join(", ");
  return h("div.flow", {},
    h("strong", {}, name(`Flow ${root}`)), " ",
    h("span.below", {}, `${counted(jobs.length, "job")} on this page: ${words}`),
    shown < jobs.length && button(`Show all ${count(jobs.length)}`, showAll, "small"));
}
