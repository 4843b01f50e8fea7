"""`python -m tests.chaos.producer`: enqueues a batch every so often until told to stop.

A batch whose answer did not come is sent again, under the same ids, until one does.
"""

import os
import signal
import sys
import time

from mulligan.core.errors import StoreError
from tests.chaos.app import ONLY_LIMITED, app, batch, limited

EVERY = "MULLIGAN_CHAOS_EVERY"
PAUSE = 0.2


def main() -> None:
    """Enqueue; SIGTERM ends it after the batch under way."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    name, number = f"{os.getpid()}-{time.time_ns() % 10**9:x}", 0
    while not stopped:
        until_answered(f"{name}-{number}")
        number += 1
        time.sleep(float(os.environ[EVERY]))
    app.close()


def until_answered(name: str) -> None:
    """Enqueue the batch of this name, once."""
    while True:
        try:
            app.enqueue_many(limited(name) if ONLY_LIMITED in os.environ else batch(name))
        except (StoreError, OSError) as error:
            print(f"producer: {error}", file=sys.stderr)
            time.sleep(PAUSE)
        else:
            return


if __name__ == "__main__":
    main()
