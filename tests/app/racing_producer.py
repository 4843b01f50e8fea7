"""A process that enqueues with one key, as fast as it can, and says what it was answered."""

import sys

from mulligan import Mulligan

KEYS: dict[str, dict[str, float]] = {
    "debounce": {"debounce": 3600.0, "debounce_max": 7200.0},
    "throttle": {"unique_for": 3600.0},
}


def main(url: str, producer: str, count: str, how: str) -> None:
    """Enqueue so many calls of one key, each with its number."""
    app = Mulligan(url)

    @app.task
    def index(producer: str, number: int) -> int:
        return number

    one = index.using(unique_key="document-7", **KEYS[how])  # type: ignore[typeddict-item]
    print("ready", flush=True)  # noqa: T201 - it is heard by who started it
    sys.stdin.readline()
    for number in range(int(count)):
        job = one.enqueue(producer, number)
        print(job.id, int(job.created), flush=True)  # noqa: T201
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
