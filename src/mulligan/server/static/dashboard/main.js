/** The shell: which page is shown, what keeps it up to date, theme and token. */

import { onTokenNeeded, token } from "./api.js";
import { askForSecret, notify } from "./dialogs.js";
import { h, morph } from "./dom.js";
import { followDocument, listen, start, state, storeNow } from "./live.js";
import { time } from "./format.js";
import { button, heading } from "./parts.js";
import dead from "./pages/dead.js";
import delayed from "./pages/delayed.js";
import enqueue from "./pages/enqueue.js";
import job from "./pages/job.js";
import jobs from "./pages/jobs.js";
import limits from "./pages/limits.js";
import overview from "./pages/overview.js";
import queue from "./pages/queue.js";
import queues from "./pages/queues.js";
import schedule from "./pages/schedule.js";
import schedules from "./pages/schedules.js";
import task from "./pages/task.js";
import tasks from "./pages/tasks.js";
import worker from "./pages/worker.js";
import workers from "./pages/workers.js";

/**
 * A page has a `title(route)`; `load(route)`, what it asks the API for; `view({data, route, overview,
 * …})`, its elements. It is viewed anew whenever the overview changes, and loaded anew too if
 * `stale(data, age)` says so of data that many milliseconds old. It may have a stream of its own:
 * `stream(route, data)` is where, if there is one, and `told(data, document)` is the data after news.
 */
const PAGES = [
  ["", overview], ["queues", queues], ["queues/*", queue], ["tasks", tasks], ["tasks/*", task],
  ["jobs", jobs], ["jobs/*", job], ["schedules", schedules], ["schedules/*", schedule],
  ["limits", limits],
  ["dead", dead], ["delayed", delayed], ["workers", workers], ["workers/*", worker], ["enqueue", enqueue],
];
const NAV = [
  ["", "Overview"], ["queues", "Queues"], ["tasks", "Tasks"], ["jobs", "Jobs"], ["dead", "Dead letters"],
  ["delayed", "Delayed"], ["schedules", "Schedules"], ["limits", "Limits"], ["workers", "Workers"], ["enqueue", "Enqueue"],
];
const TICK = 5000;
const PASSING = [0, 503]; // no answer, or the store was away
const THEMES = ["auto", "light", "dark"];
const main = document.getElementById("main");
let shown = null;
let following = null;

function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [first, ...rest] = path.split("/");
  const pattern = rest.length ? `${first}/*` : first;
  const page = PAGES.find(([each]) => each === pattern)?.[1];
  return { page, first, query: new URLSearchParams(query), name: decoded(rest.join("/")), hash };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows the page that the address names. */
async function navigate() {
  const route = routeOf(location.hash);
  const first = shown === null;
  shown = { route, data: null, problem: null, loading: false, loadedAt: 0, memory: {} };
  document.title = `${route.page?.title(route) ?? "Nothing here"} · mulligan`;
  drawNav(route.first);
  await load(shown);
  if (!first) main.querySelector("h1")?.focus({ preventScroll: true });
  if (!first) scrollTo(0, 0);
}

/** Follows the stream of the page for as long as it is shown and has one. */
function followPage(target) {
  const { page } = target.route;
  const where = (target.data && page?.stream?.(target.route, target.data)) || null;
  if (where === following?.where) return;
  following?.round.abort();
  following = where && { where, round: new AbortController() };
  if (!where) return;
  followDocument(where, following.round.signal, (document) => {
    if (target !== shown) return;
    const told = page.told(target.data, document);
    if (told) target.data = told;
    if (told) draw();
    else load(target); // more has changed than the stream tells
  });
}

/** Asks for what the page needs, and draws it; an answer for a page that was left is dropped. */
async function load(target = shown) {
  if (!target.route.page || target.loading) return draw();
  target.loading = true;
  try {
    target.data = (await target.route.page.load?.(target.route)) ?? {};
    target.problem = null;
    target.loadedAt = Date.now();
  } catch (problem) {
    // What was shown stays while the server is away; the page says so above it.
    if (!target.data || !PASSING.includes(problem.status)) target.problem = problem;
  }
  target.loading = false;
  if (target !== shown) return;
  followPage(target);
  draw();
}

function draw() {
  const content = h("div", {}, contentOf(shown));
  if (main.firstElementChild && main.dataset.page === shown.route.hash)
    morph(main.firstElementChild, content);
  else main.replaceChildren(content);
  main.dataset.page = shown.route.hash;
}

function contentOf({ route, data, problem, memory }) {
  if (!route.page) return problemView({ title: "Nothing here", message: `no page has the address ${route.hash}` });
  const trouble = problem ?? (state.overview ? null : state.problem);
  if (trouble) return problemView(trouble);
  if (!data || !state.overview) return h("p.empty", { role: "status" }, "Loading …");
  const readOnly = state.overview.read_only;
  const context = { data, route, memory, readOnly, overview: state.overview, samples: state.samples };
  return route.page.view({ ...context, now: storeNow(), reload: () => load(), redraw: draw });
}

function problemView(problem) {
  if (!problem.title) throw problem;
  return [heading(problem.title), h("p.problem", { role: "alert" }, problem.message), button("Try again", tryAgain)];
}

function tryAgain() {
  declined = false;
  load();
  start();
}

function drawNav(current) {
  const hidden = state.overview?.read_only ? ["enqueue"] : [];
  const links = NAV.filter(([path]) => !hidden.includes(path)).map(([path, text]) =>
    h("a", { href: `#/${path}`, "aria-current": path === current && "page" }, text));
  document.getElementById("nav").replaceChildren(...links);
}

const LINK_WORDS = {
  connecting: "connecting", live: "live", polling: "polling every 2 s", away: "no connection",
};

function drawShell() {
  const link = document.getElementById("link");
  link.dataset.kind = state.how;
  if (link.textContent !== LINK_WORDS[state.how]) link.textContent = LINK_WORDS[state.how];
  drawAway();
  document.getElementById("sign-out").hidden = token.get() === null;
  const { store, version, read_only: readOnly } = state.overview ?? {};
  const words = state.overview ? [`mulligan ${version}`, store, readOnly && "read-only"] : [];
  const api = h("a", { href: "api/docs" }, "API");
  document.getElementById("foot").replaceChildren(words.filter(Boolean).join(" · "), " · ", api);
}

/** Says loudly that what is shown is old, and since when; the page below is dimmed. */
function drawAway() {
  const away = document.getElementById("away");
  const stale = state.how === "away" && state.overview !== null;
  document.body.classList.toggle("stale", stale);
  away.hidden = !stale;
  if (!stale) return;
  const words = `${state.problem.status ? "The store is away" : "The server does not answer"}. All figures below are from ${time(state.overview.now)}.`;
  if (away.textContent !== words) away.textContent = words;
}

function changed() {
  const first = !drawn && state.overview;
  drawShell();
  if (first) drawNav(shown.route.first);
  drawn ||= Boolean(state.overview);
  if (needsLoading(shown)) load();
  else draw();
}
let drawn = false;

/** After a problem that may have passed by itself, and when the page says so. */
function needsLoading({ route, data, problem, loadedAt }) {
  if (problem) return PASSING.includes(problem.status);
  return data && route.page?.stale?.(data, Date.now() - loadedAt);
}

function chooseTheme() {
  const now = localStorage.getItem("mulligan.theme") ?? "auto";
  applyTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function applyTheme(theme) {
  localStorage.setItem("mulligan.theme", theme);
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = `Theme: ${theme}`;
}

let asking = null;
let declined = false;

/** One question for a token, however many requests need it, and none after it was declined. */
async function askForToken(problem) {
  if (declined) return false;
  asking ??= askForSecret({
    title: problem.title, text: problem.message, label: "Token", action: "Use this token",
  }).then((given) => {
    asking = null;
    declined = given === null;
    if (given) token.set(given);
    drawShell();
    return Boolean(given);
  });
  return asking;
}

onTokenNeeded(askForToken);
document.getElementById("theme").onclick = chooseTheme;
document.getElementById("sign-out").onclick = () => {
  token.forget();
  location.reload();
};
document.getElementById("skip").onclick = (event) => {
  event.preventDefault(); // the address names the page, not a place in it
  main.focus();
};
addEventListener("hashchange", navigate);
addEventListener("unhandledrejection", ({ reason }) =>
  notify(String(reason), { title: "A mistake in the dashboard", bad: true }));
applyTheme(localStorage.getItem("mulligan.theme") ?? "auto");
listen(changed);
setInterval(() => document.hidden || draw(), TICK); // ages grow while nothing else changes
navigate();
start();
