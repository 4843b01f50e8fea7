// What the jobs of every peer in Node do, and the talk of its client with the harness: as jobs.py
// and talk.py for those in Python.

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");

const { BENCH_URL: url, BENCH_VARIANT: variant, BENCH_FOLDER: folder } = process.env;
const concurrency = Number(process.env.BENCH_CONCURRENCY);
// how many may start in a second, over all workers; 0: any number
const rate = Number(process.env.BENCH_RATE ?? 0);
const notes = fs.openSync(path.join(folder, "notes"), "a");

function note(job, what) {
  const now = (performance.timeOrigin + performance.now()) / 1000;
  fs.writeSync(notes, `${job} ${what} ${now.toFixed(6)}\n`);
}

function firstTime(job) {
  try {
    fs.closeSync(fs.openSync(path.join(folder, `seen-${job}`), "wx"));
    return true;
  } catch {
    return false;
  }
}

// Takes so long; true if this attempt must now fail, to be retried after the delay.
async function work(job, seconds, delay) {
  note(job, "start");
  if (seconds) await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  const fails = Boolean(delay) && firstTime(job);
  note(job, fails ? "fail" : "end");
  return fails;
}

// Answers requests until there are no more. Nothing else may be printed.
async function serve(distribution, client) {
  client.version = () => require(`${distribution}/package.json`).version;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { verb, arguments: words } = JSON.parse(line);
    const before = (performance.timeOrigin + performance.now()) / 1000;
    let answer;
    try {
      answer = { value: (await client[verb](...words)) ?? null, before };
    } catch (error) {
      answer = { error: String(error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit();
}

module.exports = { url, variant, concurrency, rate, work, serve, isWorker: process.argv[2] === "worker" };
