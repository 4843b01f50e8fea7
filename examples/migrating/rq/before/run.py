"""What the shop does, and what comes of it: run a worker first.

rq worker default mail --with-scheduler
"""

import os
import time
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry
from rq.job import Job
from tasks import RETRIES, fetch_price, send_mail, total

URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")


def main() -> None:
    """Dependencies, a mail later, a failure, and a mail that is called back."""
    redis = Redis.from_url(URL)
    default, mails = Queue("default", connection=redis), Queue("mail", connection=redis)
    items = ("tea", "milk", "sugar")
    prices = [default.enqueue(fetch_price, item, retry=Retry(max=RETRIES)) for item in items]
    basket = default.enqueue(total, depends_on=prices)
    print(f"the basket costs {wait(basket).return_value()}")
    mail = mails.enqueue_in(timedelta(seconds=1), send_mail, "ada", "thank you")
    print(wait(mail).return_value())
    gold = wait(default.enqueue(fetch_price, "gold", retry=Retry(max=RETRIES)))
    print(f"failed: {gold.latest_result().exc_string.splitlines()[-1].partition(': ')[2]}")
    later = mails.enqueue_in(timedelta(hours=1), send_mail, "bob", "never mind")
    later.cancel()
    print("the mail to bob is called back")


def wait(job: Job) -> Job:
    """Look until it has ended, for a minute."""
    for _ in range(600):
        if job.get_status(refresh=True) in {"finished", "failed"}:
            return job
        time.sleep(0.1)
    raise TimeoutError(job.id)


if __name__ == "__main__":
    main()
