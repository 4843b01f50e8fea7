/** A gather on the page of its gathering job: how far it has come, what failed, and what to do with all of it. */

import { get, path } from "./api.js";
import { changeGather } from "./change.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { button, link, name, panel, table } from "./parts.js";

/** The gather that the job gathers; null if it gathers none. */
export function loadGather(job) {
  return job.body?.flow?.gathers ? get(path("api", "gathers", job.id)) : null;
}

/** Its panel, with buttons unless the reader may only read. */
export function gatherPanel(gather, readOnly, reload) {
  const ended = gather.done + gather.failed + gather.cancelled;
  return panel("Gather", [
    h("div.gather", {},
      h("progress", { max: Math.max(1, gather.members), value: ended, "aria-label": "members that have ended" }),
      h("span", {}, `${count(ended)} of ${count(gather.members)} ended`)),
    h("p.counts", {},
      `${count(gather.done)} done, ${count(gather.failed)} failed, ${count(gather.cancelled)} cancelled, `
      + `${count(gather.open)} open`),
    !readOnly && actions(gather, reload),
    gather.failures.length > 0 && table({
      caption: gather.failures.length < gather.failed + gather.cancelled ? "The first failures" : "Failures",
      key: (failure) => failure.job,
      rows: gather.failures,
      columns: [
        { title: "Index", number: true, cell: (failure) => count(failure.index) },
        { title: "Job", cell: (failure) => link(["jobs", failure.job], name(failure.job)) },
        { title: "Attempts", number: true, cell: (failure) => count(failure.attempts) },
        { title: "Failure", cell: (failure) => `${failure.type}: ${failure.reason}` },
      ],
    }),
  ]);
}

function actions(gather, reload) {
  const waits = gather.status === "pending" && gather.failed > 0 && !(gather.return_exceptions && gather.open === 0);
  return waits && h("div.actions", {}, changeButton("replay", `Replay ${count(gather.failed)} failed`, "primary", gather, reload));
}

/** A button that cancels all of a gather; null where nothing is left to cancel. */
export function cancelButton(gather, reload) {
  const ends = gather.open > 0 || ["pending", "processing"].includes(gather.status);
  return ends ? changeButton("cancel", "Cancel the whole gather", "danger.loud", gather, reload) : null;
}

const changeButton = (what, text, kind, gather, reload) => button(text, async () => {
  if (await changeGather(what, gather)) reload();
}, kind);
