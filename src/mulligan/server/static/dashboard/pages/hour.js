/** The last hour in two drawings: attempts a minute, and how long they took and waited. */

import { lines, stacks } from "../charts.js";
import { h } from "../dom.js";
import { count, span } from "../format.js";
import { panel, sum } from "../parts.js";

const HOUR = 3600;

/** Both panels, side by side; without `waits` only runtimes are drawn. */
export function hourPanels(minutes, now, { waits = true } = {}) {
  return h("div.columns", {},
    panel("Throughput, last hour", throughput(minutes, now)),
    panel("Latency, last hour", latency(minutes, now, waits)));
}

/** Where a minute is drawn: from the left, in per cent of the hour. */
function placed({ at, seconds }, now) {
  const from = Math.max(0, 100 * (1 - (now - at + seconds) / HOUR));
  return { from, to: Math.min(100, Math.max(from, 100 * (1 - (now - at) / HOUR))) };
}

function throughput(minutes, now) {
  // The minute that has just begun counts as it is: its first seconds say little about the rest.
  const perMinute = (value, { seconds }) => (value * 60) / Math.max(seconds, 60);
  const columns = minutes.filter(({ at }) => now - at < HOUR).map((minute) => ({
    ...placed(minute, now),
    parts: [["good", perMinute(minute.succeeded, minute)], ["bad", perMinute(minute.failed, minute)]],
    title: `${count(minute.succeeded)} succeeded, ${count(minute.failed)} failed in ${span(minute.seconds)}`,
  }));
  const [good, bad] = ["succeeded", "failed"].map((field) => sum(minutes, (minute) => minute[field]));
  const words = `${count(good)} succeeded, ${count(bad)} failed`;
  return figure(stacks(columns, `Attempts a minute in the last hour: ${words}`, (most) => `${count(Math.ceil(most))} a minute`),
    [["good", `${count(good)} succeeded`], ["bad", `${count(bad)} failed`]]);
}

function latency(minutes, now, waits) {
  const shown = minutes.filter(({ at }) => now - at < HOUR);
  const line = (kind, label, value) => ({
    kind, label, points: shown.map((minute) => ({ x: placed(minute, now).to, value: value(minute), at: minute.at })),
  });
  const drawn = [
    line("fresh", "runtime p50", ({ runtime }) => runtime.p50),
    line("urgent", "runtime p95", ({ runtime }) => runtime.p95),
    waits && line("retry", "wait of fresh jobs p95", ({ wait }) => wait.p95),
  ].filter(Boolean);
  const last = (points) => points.findLast(({ value }) => value !== null)?.value ?? null;
  const legend = drawn.map(({ kind, label, points }) => [kind, `${label}: ${span(last(points))}`]);
  return figure(lines(drawn, `Latency in the last hour, latest: ${legend.map(([, words]) => words).join(", ")}`, span), legend);
}

function figure(drawing, legend) {
  return h("figure", {}, drawing,
    h("figcaption.legend", {}, legend.map(([kind, words]) => h("span", { "data-kind": kind }, words))));
}
