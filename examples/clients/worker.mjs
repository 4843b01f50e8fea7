// A mulligan worker in JavaScript (node 20 or later, no packages):
//
//   node worker.mjs http://127.0.0.1:8420 queue[,queue] [region]
//
// With tokens, set MULLIGAN_TOKEN. SIGTERM or Ctrl-C lets what runs finish, and leaves.

const [base = "http://127.0.0.1:8420", queues = "default", region = "default"] = process.argv.slice(2);
const concurrency = 10;

// The tasks it can run. Whatever one throws is a failed attempt, retried by the job's own policy;
// an error may carry `nonRetryable` (no more retries) or `delay` (seconds until the next one).
const tasks = {
  shout: async (text) => text.toUpperCase(),
  add: async (a, b) => a + b,
  fail: async (reason) => { throw new Error(reason); },
};

const headers = { "Content-Type": "application/json" };
if (process.env.MULLIGAN_TOKEN) headers.Authorization = `Bearer ${process.env.MULLIGAN_TOKEN}`;

async function post(path, body) {
  const answer = await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(`${path}: ${found.detail}`), { status: found.status });
  return found;
}

async function attempt(job) {
  try {
    const task = tasks[job.task];
    if (!task) throw new Error(`no task is named ${job.task}`);
    return ["/worker/ack", { result: (await task(...job.args, job.kwargs)) ?? null }];
  } catch (error) {
    return failure(error);
  }
}

function failure({ name, message, nonRetryable = false, delay = null }) {
  return ["/worker/nack", { type: name, reason: message, non_retryable: nonRetryable, delay }];
}

const held = new Map(); // the lease of each job that runs, by its id

async function run(job) {
  const lease = { id: job.id, token: job.token };
  held.set(job.id, lease);
  let [path, said] = await attempt(job);
  while (held.has(job.id)) { // until it is answered: sending it again is safe
    try {
      const [{ verdict, outcome }] = (await post(path, { worker, jobs: [{ ...lease, ...said }] })).jobs;
      console.log(`${job.id} ${job.task} attempt ${job.attempt}: ${outcome ?? verdict}`);
      held.delete(job.id);
    } catch (error) {
      console.error(error.message);
      if (error.status < 500) [path, said] = failure(error); // the server does not want this result
      await sleep(1);
    }
  }
}

const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
let stopping = false;
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => { stopping = true; });

const { worker, beat } = await post("/worker/join",
  { queues: queues.split(","), region, concurrency, name: "node", tasks: Object.keys(tasks) });
console.log(`joined as ${worker}`);
const beating = setInterval(() => {
  post("/worker/heartbeat", { worker, holding: [...held.values()] })
    .catch((error) => console.error(error.message));
}, beat * 1000);
const running = new Set();
while (!stopping) {
  const limit = concurrency - running.size;
  const asked = limit > 0 ? post("/worker/claim", { worker, limit, wait: 1 }) : sleep(0.05);
  const { jobs = [] } = (await asked.catch((error) => { console.error(error.message); return sleep(1); })) ?? {};
  for (const job of jobs) {
    const attempting = run(job).finally(() => running.delete(attempting));
    running.add(attempting);
  }
}
await Promise.all(running);
clearInterval(beating);
await post("/worker/leave", { worker });
