"""An app whose names few encodings have."""

import os

from mulligan import Mulligan, Retry

app = Mulligan(os.environ.get("TEST_STORE", "memory://"))


@app.task(name="Ωμέγα→€", queue="Ωμέγα→€", retry=Retry(0))
def fail() -> None:
    message = "no → €"
    raise ValueError(message)


if os.environ.get("TEST_STORE"):
    fail.enqueue()
