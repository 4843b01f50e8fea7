"""A shop that still runs on Celery and RQ: it sends, and knows nothing of mulligan."""

import os
import sys

URL = os.environ["SHOP_REDIS"]


def celery() -> None:
    """Everything that Celery's code may send."""
    # Each runs where it is installed.
    from celery import Celery, chain  # type: ignore[import-not-found]  # noqa: PLC0415

    app = Celery("shop", broker=URL)

    @app.task(name="tests.bridge.app.add")
    def add(x: int, y: int = 1) -> int:
        return x + y

    for number in range(20):
        add.delay(number, y=2)
    add.apply_async((1,), countdown=3600, task_id="later")
    add.apply_async((1,), retries=2, task_id="retried")
    add.apply_async((1,), priority=5, task_id="unimportant")
    add.apply_async((1,), serializer="pickle", task_id="pickled")
    chain(add.s(1).set(task_id="chained"), add.s(2)).apply_async()


def rq() -> None:
    """The same of RQ's."""
    from datetime import timedelta  # noqa: PLC0415

    from redis import Redis  # noqa: PLC0415 - as above
    from rq import Queue, Retry  # type: ignore[import-not-found]  # noqa: PLC0415 - as above

    redis = Redis.from_url(URL)
    queue = Queue("default", connection=redis, serializer="json")
    name = "tests.bridge.app.add"
    for number in range(20):
        queue.enqueue(name, number, y=2)
    queue.enqueue_in(timedelta(hours=1), name, 1, job_id="later")
    queue.enqueue(name, 1, retry=Retry(max=2, interval=[7, 9]), job_id="retried")
    first = queue.enqueue(name, 1, job_id="first")
    queue.enqueue(name, 1, depends_on=first, job_id="dependent")
    Queue("default", connection=redis).enqueue(name, 1, job_id="pickled")


if __name__ == "__main__":
    {"celery": celery, "rq": rq}[sys.argv[1]]()
