/**
 * The overview as it changes: by the server's event stream, and while that cannot be had, by asking.
 * Nothing is asked for while the page is hidden.
 */

import { open } from "./api.js";

const POLL_EVERY = 2000;
const POLLS_BEFORE_STREAM = 5;
const SAMPLES = 120;
const BY_NAME = ["regions", "queues", "delayed", "recent", "fleets"]; // told entry by entry

/** `state.how` is "live", "polling" or "away"; `state.samples` are the last two minutes of sizes. */
export const state = { overview: null, how: "connecting", samples: [], problem: null };
const listeners = new Set();
let round = null;
let toldAt = 0;
let readOnly = false; // whether the reader may change nothing, though others may

/** The store's time now, by how long ago it was last told. */
export const storeNow = () => state.overview.now + (performance.now() - toldAt) / 1000;

/** Calls back after every change; returns how to stop that. */
export function listen(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

/** Begins to listen, and starts over whenever it is called again. */
export function start() {
  round?.abort();
  round = new AbortController();
  follow(round.signal);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) round?.abort();
  else if (round) start();
});

async function follow(signal) {
  while (!signal.aborted) {
    await streamed(signal);
    for (let polls = 0; polls < POLLS_BEFORE_STREAM && !signal.aborted; polls++) {
      await polled(signal);
      await pause(POLL_EVERY, signal);
    }
  }
}

async function streamed(signal) {
  try {
    const begun = (response) => (readOnly = isReadOnly(response));
    await readEvents("/api/events", signal, (name, told) =>
      update(name === "snapshot" ? told : merged(state.overview, told), "live"), begun);
  } catch {
    // polling says what is wrong, if something still is
  }
}

/** Follows a stream until it ends: `take(data)` gets the whole document, as it is after each event. */
export async function followDocument(where, signal, take) {
  let document = {};
  while (!signal.aborted) {
    try {
      await readEvents(where, signal, (name, told) => {
        document = name === "snapshot" ? told : { ...document, ...told };
        take(document);
      });
    } catch (problem) {
      if (problem.status === 404) return; // it is no longer stored
    }
    await pause(POLL_EVERY, signal);
  }
}

/** Reads server-sent events until the stream ends: `take(name, data)` gets each. */
async function readEvents(where, signal, take, begun = () => {}) {
  const response = await open(where, { signal });
  begun(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [name, data] = ["event: ", "data: "].map((field) =>
        event.split("\n").find((line) => line.startsWith(field))?.slice(field.length));
      if (data) take(name, JSON.parse(data)); // a comment, which keeps the connection open, has none
    }
  }
}

async function polled(signal) {
  try {
    const response = await open("/api/overview");
    const overview = await response.json();
    readOnly = isReadOnly(response);
    if (!signal.aborted) update(overview, "polling");
  } catch (problem) {
    if (!signal.aborted) tell({ how: "away", problem });
  }
}

function merged(before, change) {
  const after = { ...before, ...change };
  for (const part of BY_NAME) {
    if (change[part]) after[part] = stillThere({ ...before[part], ...change[part] });
  }
  return after;
}

/** The entries without those that are gone, in the order of their names, as the server has them. */
function stillThere(entries) {
  const left = Object.entries(entries).filter(([, entry]) => entry !== null);
  return Object.fromEntries(left.sort(([one], [other]) => (one < other ? -1 : 1)));
}

const isReadOnly = (response) => response.headers.get("Mulligan-Read-Only") === "true";

function update(told, how) {
  const overview = { ...told, read_only: told.read_only || readOnly };
  toldAt = performance.now();
  const queues = Object.values(overview.queues);
  const sum = (field) => queues.reduce((total, queue) => total + queue[field], 0);
  const sample = {
    now: overview.now,
    waiting: sum("fresh") + sum("urgent") + sum("retry"),
    retries: overview.global_retry_queue_size,
    running: sum("running"),
  };
  tell({ overview, how, problem: null, samples: [...state.samples, sample].slice(-SAMPLES) });
}

function tell(news) {
  Object.assign(state, news);
  listeners.forEach((callback) => callback());
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
