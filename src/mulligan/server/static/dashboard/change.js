/** What a reader can have done: each is asked once more with the number of jobs, done, and told. */

import { get, path, post } from "./api.js";
import { attempt, confirm, notify } from "./dialogs.js";
import { count, counted } from "./format.js";

const BATCH = 1000;
const WORDS = {
  cancel: {
    verb: "Cancel", done: "cancelled", danger: true,
    means: "They end now; what runs is stopped.",
  },
  replay: {
    verb: "Replay", done: "replayed", danger: false,
    means: "They get all their retries again; their history is kept.",
  },
  "replay-from-start": {
    verb: "Replay from the start", done: "replayed", danger: false,
    means: "They get all their retries again, and forget their steps, checkpoints and progress: every step runs again.",
  },
  purge: {
    verb: "Purge", done: "purged", danger: true,
    means: "They are deleted with their history. This cannot be undone.",
  },
};

/** Changes the jobs of these ids, after asking. */
export async function changeJobs(what, ids, items = []) {
  if (!(await agreed(what, ids.length, items))) return false;
  return attempt(async () => {
    const told = { changed: 0, refused: [], more: false, reasons: {} };
    for (let start = 0; start < ids.length; start += BATCH) {
      const [path, more] = what === "replay-from-start" ? ["replay", { from_start: true }] : [what, {}];
      const answer = await post(`/api/jobs/${path}`, { ids: ids.slice(start, start + BATCH), ...more });
      told.changed += answer.changed;
      told.refused.push(...answer.refused);
      Object.assign(told.reasons, answer.reasons);
    }
    return tell(what, told);
  });
}

/** Changes the jobs of a selection, after counting them and asking. */
export function changeSelection(what, selection) {
  return attempt(async () => {
    const { count: expected, more } = await get("/api/count", selection);
    if (!expected) return notify("No job matches any more.");
    const items = more ? [`More match: these are the first ${count(expected)}, and it can be done again.`] : [];
    if (!(await agreed(what, expected, items))) return false;
    return tell(what, await post(`/api/jobs/${what}`, { selection, expected }));
  });
}

/** Cancels or replays a gather as one, after asking. */
export async function changeGather(what, gather) {
  if (!(await (what === "replay" ? agreed(what, gather.failed, [`All of gather ${gather.id}.`]) : ends(gather)))) return false;
  return attempt(async () => {
    const { changed } = await post(path("api", "gathers", gather.id, what));
    notify(`${counted(changed, "job")} ${WORDS[what].done}.`);
    return true;
  });
}

/** Says what canceling a gather ends, and asks. */
function ends({ id, status, open, done, failed }) {
  const waits = ["pending", "processing"].includes(status);
  return confirm({
    title: `Cancel gather ${id}?`,
    text: "This ends now; what runs is stopped:",
    items: [
      waits && `the gathering job ${id}, and what would come after it`,
      open > 0 && `${counted(open, "member")} not ended yet, with all of their jobs`,
      done + failed > 0 && `${counted(done + failed, "member")} ended before; their results are kept with their jobs, and nothing gathers them`,
    ].filter(Boolean),
    danger: true,
    action: "Cancel the gather",
  });
}

/** Pauses or resumes a queue. */
export function switchQueue(queue, paused) {
  return attempt(async () => {
    await post(path("api", "queues", queue, paused ? "pause" : "resume"));
    notify(paused ? `Queue ${queue} is paused; what runs goes on.` : `Queue ${queue} goes on.`);
    return true;
  });
}

function agreed(what, number, items) {
  const { verb, means, danger } = WORDS[what];
  return confirm({
    title: `${verb} ${counted(number, "job")}?`, text: means, items, danger,
    action: `${verb} ${count(number)}`,
  });
}

function tell(what, { changed, refused, more, reasons }) {
  const parts = [`${counted(changed, "job")} ${WORDS[what].done}`];
  if (refused.length) parts.push(`${count(refused.length)} could not be`);
  if (more) parts.push("others are left");
  notify(`${parts.join("; ")}.`, { items: inGroups(reasons), bad: refused.length > 0 });
  return true;
}

const NAMED = 3;

/** A line for each reason, with the first jobs that it holds for. */
function inGroups(reasons) {
  const groups = new Map();
  for (const [job, reason] of Object.entries(reasons)) groups.set(reason, [...(groups.get(reason) ?? []), job]);
  return [...groups].map(([reason, jobs]) => {
    const more = jobs.length > NAMED ? ` and ${count(jobs.length - NAMED)} more` : "";
    return `${jobs.slice(0, NAMED).join(", ")}${more}: ${reason}`;
  });
}
