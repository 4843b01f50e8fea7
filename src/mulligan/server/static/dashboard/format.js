/** Numbers, spans and times as people read them. Counts are never rounded. */

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
export const NOTHING = "–";

/** A count, to the unit. */
export const count = (value) => whole.format(value);

/** A count with its noun: `1 job`, `2 jobs`. */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** A share as a percentage; a dash where there is none. */
export function percent(share) {
  return share === null || share === undefined ? NOTHING : `${+(share * 100).toFixed(2)} %`;
}

/** A span of seconds in one or two units. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const value = Math.abs(seconds);
  if (value < 0.0005) return "0 s";
  if (value < 1) return `${Math.max(1, Math.round(value * 1000))} ms`;
  if (value < 10) return `${+value.toFixed(1)} s`;
  if (value < 60) return `${Math.round(value)} s`;
  if (value < 3600) return two(value, 60, "min", 1, "s");
  if (value < 86400) return two(value, 3600, "h", 60, "min");
  return two(value, 86400, "d", 3600, "h");
}

function two(value, large, largeName, small, smallName) {
  const total = Math.round(value / small);
  const ratio = large / small;
  const rest = total % ratio;
  return `${Math.floor(total / ratio)} ${largeName}` + (rest ? ` ${rest} ${smallName}` : "");
}

/** A time as this machine's clock shows it. */
export const time = (seconds) => (seconds === null ? NOTHING : clock.format(new Date(seconds * 1000)));

/** A time as it is seen from `now`: `12 s ago`, `in 3 min`. */
export function relative(seconds, now) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const distance = now - seconds;
  if (Math.abs(distance) < 0.5) return "now";
  return distance > 0 ? `${span(distance)} ago` : `in ${span(distance)}`;
}

/** A value as indented JSON. */
export const json = (value) => JSON.stringify(value, null, 2);

/** Bytes in the unit that fits. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return `${+(value / 1024 ** power).toFixed(power > 1 ? 1 : 0)} ${units[power]}`;
}

const LONGEST_CALL = 300;

/** The arguments of a job in short, as a call has them: `"a", 2, key=true`. */
export function argumentsOf(body) {
  if (body === null || typeof body !== "object") return short(String(body ?? ""));
  const args = Array.isArray(body.args) ? body.args.map((value) => JSON.stringify(value)) : [];
  const kwargs = Object.entries(body.kwargs ?? {}).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return short([...args, ...kwargs].join(", "));
}

const short = (text) => (text.length > LONGEST_CALL ? `${text.slice(0, LONGEST_CALL)} …` : text);

/** How long the last attempt of a job took, or has taken so far; null if none ran. */
export function runtimeOf(job, now) {
  if (job.started_at === null || job.status === "pending") return null;
  if (job.status === "processing") return Math.max(0, now - job.started_at);
  if (job.status === "cancelled" && job.started_at < job.due) return null; // it waited for the next
  return Math.max(0, job.ended_at - job.started_at);
}
