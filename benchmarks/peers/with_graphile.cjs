// Graphile Worker on PostgreSQL: with its defaults, logging included (at 10 jobs at a time, its
// default is one), or at its fastest: a local queue of 2,000, batched completion, no log, 24 at a
// time. A local queue needs a poll interval above twice its refetch delay; both are its defaults.
//
// Done jobs are deleted. Left: rows of its table that may still run. Its backoff is its own and
// cannot be set: the first retry comes after e = 2.718 s, whatever delay is asked for. Every job is
// a coroutine; there are no plain functions.

const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");
const { url, variant, concurrency, work, serve, isWorker } = require("./jobs.cjs");

const silent = new Logger(() => () => {});
const taskList = {
  noop: async () => {},
  work: async (call) => {
    if (await work(...call)) throw new Error("once");
  },
};
const fastest = {
  worker: {
    connectionString: url,
    concurrentJobs: concurrency || 24,
    localQueue: { size: concurrency || 2000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

if (isWorker && variant === "batched") {
  run({ preset: fastest, taskList, logger: silent });
} else if (isWorker) {
  run({ connectionString: url, concurrency: concurrency || 10, taskList });
} else {
  const pool = new Pool({ connectionString: url });
  const table = "graphile_worker._private_jobs";
  const count = async (where) =>
    Number((await pool.query(`SELECT count(*) FROM ${table} WHERE ${where}`)).rows[0].count);
  makeWorkerUtils({ connectionString: url, logger: silent }).then(async (utils) => {
    await utils.migrate();
    serve("graphile-worker", {
      async enqueue_one(many) {
        for (let number = 0; number < many; number++) await utils.addJob("noop", [number]);
      },
      async enqueue_many(many) {
        for (let start = 0; start < many; start += 1000) {
          const size = Math.min(1000, many - start);
          const specs = Array.from({ length: size }, (_, n) => ({ identifier: "noop", payload: [n] }));
          await utils.addJobs(specs);
        }
      },
      async enqueue_work(calls) {
        await utils.addJobs(
          calls.map((payload) => ({ identifier: "work", payload, maxAttempts: 2 })),
        );
      },
      left: () => count("attempts < max_attempts OR locked_at IS NOT NULL"),
      failed: () => count("attempts >= max_attempts AND locked_at IS NULL"),
    });
  });
}
