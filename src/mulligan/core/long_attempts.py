"""Attempts that have run for a while, as their workers note them, and slots that only wait."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, json

from mulligan.core.errors import UNREADABLE
from mulligan.core.metric import Metric, Sample, gauge, labels
from mulligan.core.worker import LOOK_EVERY

LONG_ATTEMPTS = "attempts:"
# A note is renewed as often as a worker looks for orders; one that is older is of a dead worker.
KEEP_ATTEMPTS = 3 * LOOK_EVERY


class LongAttempts(Struct, frozen=True):
    """The attempts of a worker of which one has run for longer than LOOK_EVERY.

    `oldest` is when the first of each queue started. `waiting` of them wait for the results of
    other jobs, such as `parent` for `child`.
    """

    worker: str
    region: str
    slots: int
    oldest: dict[str, float]
    waiting: int = 0
    parent: str = ""
    child: str = ""

    @property
    def is_stuck(self) -> bool:
        """Whether every slot waits for the result of another job."""
        return self.waiting >= self.slots


_decode = json.Decoder(LongAttempts).decode


def read_long_attempts(notes: Mapping[str, bytes]) -> list[LongAttempts]:
    """What workers have noted, without notes that cannot be read."""
    found = []
    for written in notes.values():
        try:
            found.append(_decode(written))
        except UNREADABLE:
            continue
    return found


def attempt_metrics(found: Iterable[LongAttempts], now: float) -> list[Metric]:
    """How long the oldest attempt of each queue and region has run."""
    help_text = "how long the oldest attempt has run, from 5 s on"
    return [gauge("mulligan_oldest_attempt_seconds", help_text, oldest_attempts(found, now))]


def oldest_attempts(found: Iterable[LongAttempts], now: float) -> Iterator[Sample]:
    """The age of the oldest attempt of each queue and region."""
    first: dict[tuple[str, str], float] = {}
    for each in found:
        for queue, at in each.oldest.items():
            first[queue, each.region] = min(at, first.get((queue, each.region), at))
    for (queue, region), at in sorted(first.items()):
        yield Sample(labels(queue, region), max(0.0, now - at))


def all_stuck(workers: Sequence[str], found: Iterable[LongAttempts]) -> str | None:
    """A clause if every slot of all these workers waits for another job's result; else None."""
    stuck = {each.worker: each for each in found if each.is_stuck}
    if not workers or not stuck.keys() >= set(workers):
        return None
    one = stuck[workers[0]]
    slots = sum(stuck[each].slots for each in workers)
    of = f"worker {one.worker}" if len(workers) == 1 else f"the {len(workers)} workers"
    which = "the only slot" if slots == 1 else f"all {slots} slots"
    return (
        f"{which} of {of} that may take it {'is' if slots == 1 else 'are'} taken by jobs that wait"
        f" for the results of other jobs, such as {one.parent} for {one.child}; raise the"
        " concurrency, give the awaited task a queue with workers of its own, or make it a stage or"
        " a member of a gather, which hold no slot while they wait"
    )
