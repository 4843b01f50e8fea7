// What the shop does, and what comes of it: run a worker first, node tasks.cjs

const { FlowProducer, Queue, QueueEvents } = require("bullmq");
const { connection, retried } = require("./tasks.cjs");

const MINUTE = 60_000;

async function main() {
  const flows = new FlowProducer({ connection });
  const [shop, mails] = ["shop", "mail"].map((name) => new Queue(name, { connection }));
  const [shopEvents, mailEvents] = ["shop", "mail"].map((name) => new QueueEvents(name, { connection }));
  await Promise.all([shopEvents.waitUntilReady(), mailEvents.waitUntilReady()]);

  const basket = await flows.add({
    name: "total",
    queueName: "shop",
    children: ["tea", "milk", "sugar"].map((item) => ({
      name: "fetch_price",
      queueName: "shop",
      data: { item },
      opts: retried,
    })),
  });
  console.log(`the basket costs ${await basket.job.waitUntilFinished(shopEvents, MINUTE)}`);
  const mail = await mails.add("send_mail", { to: "ada", text: "thank you" }, { delay: 1000 });
  console.log(await mail.waitUntilFinished(mailEvents, MINUTE));
  const gold = await shop.add("fetch_price", { item: "gold" }, retried);
  try {
    await gold.waitUntilFinished(shopEvents, MINUTE);
  } catch (error) {
    console.log(`failed: ${error.message}`);
  }
  const later = await mails.add("send_mail", { to: "bob", text: "never mind" }, { delay: 3_600_000 });
  await later.remove();
  console.log("the mail to bob is called back");
  await Promise.all([flows, shop, mails, shopEvents, mailEvents].map((each) => each.close()));
}

main();
