/** Drawings. Places along them are percentages, so that they fill any width and text keeps its size. */

import { h, s } from "./dom.js";
import { count, counted, span } from "./format.js";

/** A horizontal bar, as long as its share of the most. */
export function bar(value, most, kind) {
  const length = most > 0 ? (100 * value) / most : 0;
  return s("svg.bar", { "aria-hidden": "true" },
    s("rect.rail", { width: "100%", height: "100%", rx: 3 }),
    value > 0 && s("rect.fill", {
      "data-kind": kind, width: `${Math.max(length, 1)}%`, height: "100%", rx: 3,
    }),
  );
}

/** A row with a name, a bar and the number itself. */
export function barRow(name, value, most, kind, text = count(value)) {
  return h("div.bar-row", { "data-key": name },
    h("span.bar-name", { title: name }, name), bar(value, most, kind), h("span.bar-value", {}, text));
}

const MOST_DOTS = 120;

/** A dot for each retry that is due and a ring for each in backoff, or for several of them. */
export function dots(due, later) {
  const each = Math.max(1, Math.ceil((due + later) / MOST_DOTS));
  const some = (kind, number) =>
    Array.from({ length: Math.ceil(number / each) }, () => h(`span.${kind}`, {}));
  const title = each > 1 ? `each stands for ${count(each)} retries` : "a dot is due, a ring in backoff";
  return h("div.dots", { "aria-hidden": "true", title }, some("due", due), some("later", later));
}

/** A line of the last values. */
export function sparkline(values, kind) {
  if (values.length < 2) return s("svg.spark", { "aria-hidden": "true" });
  const most = Math.max(...values, 1);
  const points = values.map((value, index) => {
    const across = (100 * index) / (values.length - 1);
    return `${across.toFixed(2)},${(23 - (22 * value) / most).toFixed(2)}`;
  });
  return s("svg.spark", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("polygon.area", { "data-kind": kind, points: `0,24 ${points.join(" ")} 100,24` }),
    s("polyline.line", { "data-kind": kind, points: points.join(" ") }),
  );
}

/** Columns, each `{label, value, title}`; a label that is empty is not drawn. */
export function histogram(columns, label) {
  const most = Math.max(...columns.map(({ value }) => value), 1);
  const width = 100 / columns.length;
  const height = 120;
  return s("svg.histogram", { role: "img", "aria-label": label, height: height + 24 },
    columns.map(({ label: text, value, title }, index) => {
      const tall = value > 0 ? Math.max((height - 18) * (value / most), 2) : 1;
      const middle = `${(index + 0.5) * width}%`;
      return s("g", {},
        s("title", {}, title),
        s("rect.fill", {
          "data-kind": value ? "delayed" : "rail", x: `${(index + 0.12) * width}%`,
          y: height - tall, width: `${0.76 * width}%`, height: tall, rx: 2,
        }),
        value === most && value > 0 && s("text.top", { x: middle, y: height - tall - 5 }, count(value)),
        text && s("text.axis", { x: middle, y: height + 16 }, text),
      );
    }),
  );
}

const ROW = 46;
const LEAST_LABEL = 8; // per cent of the width that a label needs

/**
 * The attempts of a job, `{region, from, to, kind, title}`, in a row for each region. Time runs to
 * the right; long spans are compressed, so that an attempt of a second shows beside a wait of an hour.
 */
export function timeline(attempts, created) {
  const regions = [...new Set(attempts.map(({ region }) => region))];
  const placed = place(attempts, created);
  const height = regions.length * ROW + 6;
  const middle = (attempt) => regions.indexOf(attempt.region) * ROW + 29;
  return s("svg.timeline", { role: "img", height, "aria-label": spoken(attempts) },
    regions.map((region, row) => s("g", {},
      s("text.region", { x: 0, y: row * ROW + 13 }, region),
      s("line.rail", { x1: "0%", x2: "100%", y1: row * ROW + 29, y2: row * ROW + 29 }))),
    placed.map((attempt, index) => index > 0 && connector(placed[index - 1], attempt, middle)),
    placed.map((attempt) => drawn(attempt, middle(attempt))),
  );
}

function drawn(attempt, middle) {
  const width = attempt.end - attempt.start;
  return s("g", {},
    s("title", {}, attempt.title),
    s("rect.fill", {
      "data-kind": attempt.kind, x: `${attempt.start}%`, y: middle - 9, width: `${width}%`, height: 18, rx: 4,
    }),
    width > LEAST_LABEL && s("text.inside", { x: `${attempt.start + width / 2}%`, y: middle + 4 },
      span(attempt.to - attempt.from)),
  );
}

function connector(before, after, middle) {
  const [from, to] = [middle(before), middle(after)];
  const wide = after.start - before.end > LEAST_LABEL;
  return s("g", {},
    s("line.wait", { x1: `${before.end}%`, y1: from, x2: `${after.start}%`, y2: to }),
    wide && s("text.wait-text", { x: `${(before.end + after.start) / 2}%`, y: (from + to) / 2 - 6 },
      span(after.from - before.to)),
  );
}

/** The start and end of each attempt, in per cent of the width. */
function place(attempts, created) {
  const weight = (seconds) => 1 + Math.log2(1 + Math.max(0, seconds) * 4);
  let [at, before] = [0, created];
  const weighed = attempts.map((attempt) => {
    const start = at + (attempt.from - before > 0.001 ? 0.8 * weight(attempt.from - before) : 0);
    at = start + weight(attempt.to - attempt.from);
    before = attempt.to;
    return { ...attempt, start, end: at };
  });
  return weighed.map((each) => ({ ...each, start: (100 * each.start) / at, end: (100 * each.end) / at }));
}

function spoken(attempts) {
  const each = attempts.map(({ region, kind, from, to }) => `${kind} in ${region} after ${span(to - from)}`);
  return `${counted(attempts.length, "attempt")}: ${each.join(", ")}`;
}

const HOUR_HEIGHT = 120;
const AXIS = [[0, "1 h ago"], [50, "30 min ago"], [100, "now"]];

/** The frame of an hour: a line at the top with the most, one at the bottom, and when it was. */
function hourFrame(label, most, words, drawing) {
  return s("svg.hour", { role: "img", "aria-label": label, height: HOUR_HEIGHT + 38 },
    s("line.rail", { x1: "0%", x2: "100%", y1: 18, y2: 18 }),
    s("line.rail", { x1: "0%", x2: "100%", y1: HOUR_HEIGHT + 18, y2: HOUR_HEIGHT + 18 }),
    s("text.most", { x: 0, y: 12 }, most > 0 ? words(most) : "nothing yet"),
    AXIS.map(([x, text]) => s("text", {
      x: `${x}%`, y: HOUR_HEIGHT + 34, "text-anchor": x === 0 ? "start" : x === 100 ? "end" : "middle",
    }, text)),
    drawing);
}

/** Columns of parts on each other, `{from, to, parts: [[kind, value]], title}`, placed in per cent. */
export function stacks(columns, label, words) {
  const total = ({ parts }) => parts.reduce((all, [, value]) => all + value, 0);
  const most = Math.max(0, ...columns.map(total));
  return hourFrame(label, most, words, columns.map((column) => {
    let bottom = HOUR_HEIGHT + 18;
    const width = Math.max(0.3, 0.86 * (column.to - column.from));
    return s("g", {}, s("title", {}, column.title), column.parts.filter(([, value]) => value > 0).map(([kind, value]) => {
      const tall = Math.max((HOUR_HEIGHT * value) / most, 1);
      bottom -= tall;
      return s("rect.fill", { "data-kind": kind, x: `${column.from}%`, y: bottom, width: `${width}%`, height: tall });
    }));
  }));
}

/**
 * Lines, `{kind, points: [{x, value}]}` with x in per cent; a value that is null leaves a gap. The scale
 * is logarithmic, so that milliseconds show beside minutes.
 */
export function lines(series, label, words) {
  const values = series.flatMap(({ points }) => points.map(({ value }) => value)).filter((value) => value > 0);
  const [most, least] = [Math.max(0, ...values), Math.min(...values) / 1.5];
  const height = (value) => {
    const share = Math.log(Math.max(value, least) / least) / Math.log(most / least);
    return (1 + (HOUR_HEIGHT - 2) * (1 - share)).toFixed(1);
  };
  const drawn = most > 0 && s("svg", {
    y: 18, height: HOUR_HEIGHT, width: "100%", viewBox: `0 0 100 ${HOUR_HEIGHT}`, preserveAspectRatio: "none",
  }, series.map(({ kind, points }) => runs(points).map((run) =>
    s("polyline.line", { "data-kind": kind, points: run.map(({ x, value }) => `${x.toFixed(2)},${height(value)}`).join(" ") }))));
  const bottom = most > 0 && s("text.least", { x: 0, y: HOUR_HEIGHT + 12 }, words(least));
  return hourFrame(label, most, words, [drawn, bottom]);
}

/** The points between gaps; one that stands alone is drawn as a short line. */
function runs(points) {
  const found = [[]];
  for (const point of points) {
    if (point.value === null) found.push([]);
    else found.at(-1).push(point);
  }
  return found.filter((run) => run.length).map((run) =>
    run.length > 1 ? run : [{ ...run[0], x: Math.max(0, run[0].x - 1) }, run[0]]);
}
