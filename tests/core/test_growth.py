"""What operators look at takes work in proportion to what a store holds, not to its square."""

from collections.abc import Callable
from itertools import cycle, islice, product

import pytest

from mulligan.core.alerts import alerts
from mulligan.core.counts import NO_COUNTS, Counts
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import Separate
from mulligan.core.health import Breaker, Health
from mulligan.core.lane import Lane, Priority
from mulligan.core.metrics import metrics, summary
from mulligan.core.stats import LaneStats, Stats
from mulligan.core.status import status
from mulligan.core.worker import Worker, WorkerView


class Name(str):
    """A name that counts how often it is compared or looked up."""

    __slots__ = ()
    uses = 0

    def __eq__(self, other):
        Name.uses += 1
        return str.__eq__(self, other)

    def __hash__(self):
        Name.uses += 1
        return str.__hash__(self)


def uses_of(
    work: Callable[[Stats, Facts], object], queues: int, regions: int, *, each: bool
) -> int:
    """How often names are used for a store with so many of both, or `each` queue in each region."""
    queue_names = [Name(f"q{index}") for index in range(queues)]
    region_names = [Name(f"r{index}") for index in range(regions)]
    longer = max(queues, regions)
    pairs = (
        list(product(queue_names, region_names))
        if each
        else list(
            zip(
                *(islice(cycle(names), longer) for names in (queue_names, region_names)),
                strict=True,
            )
        )
    )
    workers = [
        WorkerView(Worker(f"w{index}", region, (queue,)), 990.0, 900.0, live=True, running=0)
        for index, (queue, region) in enumerate(pairs)
    ]
    lanes = [
        LaneStats(Lane(queue, scope, priority), 1, 0, 990.0)
        for queue, region in pairs
        for scope, priority in ((region, Priority.NORMAL), (f"*-{region}", Priority.RETRY))
    ]
    stats = Stats(
        1000.0, lanes, dict.fromkeys(pairs, 1), {(q, "done"): 1 for q in queue_names}, {}, workers
    )
    served: dict[str, set[str]] = {name: set() for name in region_names}
    for queue, region in pairs:
        served[region].add(queue)
    facts = Facts(
        regions=tuple(Region(name, frozenset(queues)) for name, queues in sorted(served.items())),
        queues={name: QueueSettings(Separate()) for name in queue_names},
        health={at: Health(failed=1, breaker=Breaker(open=at[1] == "r1")) for at in pairs},
    )
    Name.uses = 0
    work(stats, facts)
    return Name.uses


@pytest.mark.parametrize(
    "work",
    [
        lambda stats, facts: status(stats, [], facts),
        alerts,
        lambda stats, facts: metrics(stats, NO_COUNTS, facts),
        lambda stats, facts: summary(
            Counts({}, {(*at, "started.fresh"): 1.0 for at in stats.running}), facts
        ),
    ],
)
@pytest.mark.parametrize(("queues", "regions"), [(200, 1), (1, 200), (200, 200)])
def test_twice_as_many_names_take_twice_the_work(work, queues, regions):
    once = uses_of(work, queues // 2 or 1, regions // 2 or 1, each=False)
    assert uses_of(work, queues, regions, each=False) < 2.5 * once


def test_queues_in_many_regions_take_work_by_lane():
    once = uses_of(alerts, 10, 20, each=True)
    assert uses_of(alerts, 10, 40, each=True) < 2.5 * once
