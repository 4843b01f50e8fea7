/** What a job has recorded: its progress, its checkpoint, its steps and its log. */

import { h, s } from "./dom.js";
import { NOTHING, bytes, count, counted, json, percent } from "./format.js";
import { button, panel, table, when } from "./parts.js";

const STEPS = 20; // at a time

/** The panels of what there is. */
export function recordsOf({ steps, progress, log, checkpoint }, now, memory, redraw) {
  return [
    (progress || checkpoint) && panel("Progress", progress && progressOf(progress, now), checkpoint && checkpointOf(checkpoint, now)),
    log.length > 0 && panel("Log", logOf(log, now)),
    steps.length > 0 && panel("Steps", stepsOf(steps, now, memory, redraw)),
  ];
}

/** A bar where it is known of how much; a number otherwise. */
function progressOf({ done, of, note, at }, now) {
  const share = of ? Math.min(Math.max(done / of, 0), 1) : null;
  const words = of ? `${count(done)} of ${count(of)}` : count(done);
  return h("div.progress", {},
    share !== null && h("div", {
      role: "progressbar", "aria-label": "Progress of the job", "aria-valuemin": "0", "aria-valuemax": "100",
      "aria-valuenow": String(Math.round(share * 100)), "aria-valuetext": words,
    }, s("svg.meter", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect.rail", { width: 100, height: 4 }), s("rect.done", { width: share * 100, height: 4 }))),
    h("p", {}, h("strong", {}, share === null ? words : percent(Math.round(share * 100) / 100)),
      share !== null && ` · ${words}`, note && ` · ${note}`, h("span.below", {}, " · ", when(at, now))));
}

function checkpointOf({ at, size, value }, now) {
  return h("p", {}, "checkpoint ",
    value === undefined ? h("span.below", {}, bytes(size)) : h("code", {}, JSON.stringify(value)),
    h("span.below", {}, " ", when(at, now)));
}

/** The newest steps, and more of them each time that a reader asks. */
function stepsOf(steps, now, memory, redraw) {
  const shown = memory.steps ?? STEPS;
  const more = steps.length - shown;
  const showMore = () => {
    memory.steps = shown + STEPS;
    redraw();
  };
  return [
    h("p.below", {}, `${counted(steps.length, "step")} recorded, the newest first; they do not run again`),
    stepTable(steps.toReversed().slice(0, shown), now),
    more > 0 && button(`Show ${count(Math.min(more, STEPS))} older`, showMore),
  ];
}

function stepTable(steps, now) {
  return table({
    caption: "Recorded steps, the newest first",
    key: ({ name }) => name,
    rows: steps,
    columns: [
      { title: "Step", cell: ({ name }) => h("strong", {}, name) },
      { title: "Recorded", cell: ({ at }) => when(at, now) },
      { title: "Size", number: true, cell: ({ size }) => bytes(size) },
      { title: "Result", cell: ({ result }) => (result === undefined ? NOTHING : resultOf(result)) },
    ],
  });
}

function resultOf(result) {
  const short = JSON.stringify(result);
  return short.length <= 80 ? h("code", {}, short) : h("details", {}, h("summary", {}, `${short.slice(0, 60)} …`), h("pre", { tabindex: "0" }, json(result)));
}

/** The newest line is first, so that it is in sight. */
function logOf(lines, now) {
  const line = ({ at, text }) => h("li", {}, h("span.below", {}, when(at, now)), " ", h("span", {}, text));
  return h("ol.log", { tabindex: "0", "aria-label": "Log of the job, newest first" }, lines.toReversed().map(line));
}
