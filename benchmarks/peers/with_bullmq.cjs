// BullMQ on Redis: 100 jobs at a time in one process; ended jobs are kept, as by default.
//
// Left: waiting, active, delayed and prioritized jobs, as its queue counts them. Every job is a
// coroutine; there are no plain functions. Its limiter is one of the queue, for all workers.

const { Queue, Worker } = require("bullmq");
const { url, concurrency, rate, work, serve, isWorker } = require("./jobs.cjs");

const address = new URL(url);
const connection = {
  host: address.hostname,
  port: Number(address.port),
  db: Number(address.pathname.slice(1)),
  maxRetriesPerRequest: null,
};

if (isWorker) {
  const run = async (job) => {
    if (job.name === "work" && (await work(...job.data))) throw new Error("once");
  };
  new Worker("bench", run, {
    connection,
    concurrency: concurrency || 100,
    ...(rate && { limiter: { max: rate, duration: 1000 } }),
  });
} else {
  const queue = new Queue("bench", { connection });
  const count = async (...states) =>
    Object.values(await queue.getJobCounts(...states)).reduce((sum, each) => sum + each, 0);
  serve("bullmq", {
    async enqueue_one(many) {
      for (let number = 0; number < many; number++) await queue.add("noop", number);
    },
    async enqueue_many(many) {
      for (let start = 0; start < many; start += 1000) {
        const size = Math.min(1000, many - start);
        await queue.addBulk(Array.from({ length: size }, (_, n) => ({ name: "noop", data: n })));
      }
    },
    async enqueue_work(calls) {
      await queue.addBulk(
        calls.map((data) => ({
          name: "work",
          data,
          opts: data[2] ? { attempts: 2, backoff: { type: "fixed", delay: 1000 * data[2] } } : {},
        })),
      );
    },
    left: () => count("waiting", "active", "delayed", "prioritized"),
    failed: () => count("failed"),
  });
}
