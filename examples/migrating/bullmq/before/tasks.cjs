// The shop's tasks, as BullMQ runs them: node tasks.cjs

const { Worker } = require("bullmq");
const { price } = require("./service.cjs");

const url = new URL(process.env.SHOP_REDIS || "redis://localhost:6379/0");
const connection = {
  host: url.hostname,
  port: Number(url.port),
  db: Number(url.pathname.slice(1)),
  maxRetriesPerRequest: null,
};
// Whoever adds a job says how often it is tried.
const retried = { attempts: 3, backoff: { type: "exponential", delay: 500 } };

const tasks = {
  fetch_price: (job) => price(job.data.item, job.attemptsMade),
  total: async (job) => {
    const prices = Object.values(await job.getChildrenValues());
    return prices.reduce((sum, each) => sum + each, 0);
  },
  send_mail: (job) => `to ${job.data.to}: ${job.data.text}`,
};

module.exports = { connection, retried };

if (require.main === module) {
  const run = async (job) => tasks[job.name](job);
  const workers = ["shop", "mail"].map((queue) => new Worker(queue, run, { connection, concurrency: 4 }));
  process.on("SIGTERM", async () => {
    await Promise.all(workers.map((worker) => worker.close()));
    process.exit(0);
  });
}
