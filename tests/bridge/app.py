"""Tasks that have moved, for a Celery and an RQ that have not: on the store that a test names."""

import os

from mulligan import Mulligan, Retry

app = Mulligan(os.environ.get("TEST_STORE", "memory://"))


@app.task(retry=Retry(3))
def add(x: int, y: int = 1) -> int:
    return x + y
