"""A process that enqueues with one key, as fast as it can, and says what it was answered."""

import sys

from mulligan import Mulligan

HOUR = 3600.0


def main(url: str, producer: str, count: str, how: str) -> None:
    """Enqueue so many calls of one key, each with its number."""
    app = Mulligan(url)

    @app.task
    def index(producer: str, number: int) -> int:
        return number

    calm = index.using(unique_key="document-7", debounce=HOUR, debounce_max=2 * HOUR)
    one = calm if how == "debounce" else index.using(unique_key="document-7", unique_for=HOUR)
    print("ready", flush=True)  # noqa: T201 - it is heard by who started it
    sys.stdin.readline()
    for number in range(int(count)):
        job = one.enqueue(producer, number)
        print(job.id, int(job.created), flush=True)  # noqa: T201
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
