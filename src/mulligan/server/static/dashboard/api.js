/** The server's API: every request of the dashboard goes through here. */

const TOKEN = "mulligan.token";
// Where the server is: below the path of another application, if it is mounted there.
const ROOT = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
let askForToken = async () => false;

/** A refusal, in the words of the server's problem document. */
export class Problem extends Error {
  constructor({ title, detail, status }) {
    super(detail);
    this.title = title;
    this.status = status;
  }
}

/** Says how a token is asked for; `ask(problem)` resolves to false when the reader declines. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

/** The answer to a GET. Parameters that are empty are left out. */
export function get(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return answered(query ? `${path}?${query}` : path, { method: "GET" });
}

/** The answer to a POST; with a key, sending it twice does it once. */
export function post(path, body = {}, key = null) {
  const headers = { "Content-Type": "application/json", ...(key && { "Idempotency-Key": key }) };
  return answered(path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** The response itself, for those who read it as it comes. Raises a Problem unless it is good. */
export async function open(path, options = {}) {
  for (;;) {
    const shown = token.get();
    const response = await reached(path, options, shown);
    if (response.ok) return response;
    const problem = await problemOf(response);
    const replaced = token.get() !== shown; // while this request was under way
    const byToken = response.headers.get("WWW-Authenticate") === "Bearer";
    if (!byToken || !(replaced || (await askForToken(problem)))) throw problem;
  }
}

/** A key that no other request has. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A path from segments, each of which may hold any character. */
export const path = (...segments) => "/" + segments.map(encodeURIComponent).join("/");

async function answered(where, options) {
  return (await open(where, options)).json();
}

async function reached(where, options, bearer) {
  const headers = { ...options.headers, ...(bearer && { Authorization: `Bearer ${bearer}` }) };
  try {
    return await fetch(ROOT + where, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const detail = "the server does not answer; is it running, and can this machine reach it?";
    throw new Problem({ title: "No answer", detail, status: 0 });
  }
}

async function problemOf(response) {
  try {
    return new Problem(await response.json());
  } catch {
    const detail = `${response.url} was answered with ${response.status}`;
    return new Problem({ title: "An answer that is none of this API's", detail, status: response.status });
  }
}
