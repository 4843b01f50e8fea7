"""The load of a queue is what one more worker could start now."""

from mulligan.core.budget import Budget
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import Capped
from mulligan.core.lane import Lane, Priority
from mulligan.core.load import startable, tightest
from mulligan.core.plan import Cap, Rate, Source
from mulligan.core.stats import LaneStats, Stats

REGIONS = (Region("EU", frozenset({"q"})), Region("US", frozenset({"q"})))
FACTS = Facts(regions=REGIONS)


def lane(
    scope: str, priority: Priority, ready: int, due: float = 900.0, queue: str = "q"
) -> LaneStats:
    return LaneStats(Lane(queue, scope, priority), ready, 0, due)


def load(*lanes: LaneStats, facts: Facts = FACTS) -> dict[tuple[str, str], int]:
    found = startable(Stats(1000.0, list(lanes), {}, {}, {}, []), facts)
    return {place: jobs for place, jobs in found.items() if jobs or place != ("q", "*")}


def test_everything_that_is_due_counts_where_it_waits():
    found = load(
        lane("EU", Priority.NORMAL, 3),
        lane("EU", Priority.URGENT, 2),
        lane("*", Priority.NORMAL, 4),
        lane("*-US", Priority.RETRY, 5),
        lane("US", Priority.NORMAL, 1, queue="mail"),
    )
    assert found == {("q", "EU"): 5, ("q", "*"): 9, ("mail", "US"): 1}


def test_a_queue_in_which_nothing_may_start_has_a_load_of_nothing():
    assert load(lane("EU", Priority.NORMAL, 0)) == {("q", "EU"): 0}
    paused = Facts(regions=REGIONS, paused=frozenset({"q"}))
    assert load(lane("EU", Priority.NORMAL, 7), facts=paused) == {("q", "EU"): 0}


def test_a_known_queue_is_there_even_if_it_is_empty():
    nothing = Stats(1000.0, [], {}, {}, {}, [])
    assert startable(nothing, FACTS) == {("q", "*"): 0}
    assert startable(nothing, Facts(queues={"mail": QueueSettings()})) == {("mail", "*"): 0}


def test_of_what_a_cap_or_a_budget_holds_as_much_counts_as_it_lets_start():
    retries = lane("*", Priority.RETRY, 300), lane("EU", Priority.RETRY, 8)
    for settings in (QueueSettings(Capped(10)), QueueSettings(budget=Budget(10, per=3600))):
        facts = Facts(regions=REGIONS, queues={"q": settings})
        found = load(*retries, lane("EU", Priority.NORMAL, 3), facts=facts)
        assert sum(found.values()) == 13, settings
        assert load(retries[1], facts=facts) == {("q", "EU"): 8}


def test_a_retry_left_to_other_regions_counts_as_soon_as_one_of_them_may_take_it():
    fresh = lane("*-US", Priority.RETRY, 2, due=999.9)
    assert load(fresh) == {("q", "*"): 2}
    alone = Facts(regions=REGIONS[1:])
    assert load(lane("*-US", Priority.RETRY, 2, due=1.0), facts=alone) == {("q", "*"): 2}


def test_work_counts_where_no_worker_has_ever_been():
    assert load(lane("*", Priority.NORMAL, 2), facts=Facts()) == {("q", "*"): 2}
    assert load(lane("MARS", Priority.NORMAL, 2), facts=Facts()) == {("q", "MARS"): 2}


def test_a_retry_in_its_grace_counts_nowhere_if_only_the_region_that_failed_it_may_take_it():
    alone = Facts(regions=REGIONS[:1])
    left_to_others = lane("*-EU", Priority.RETRY, 1, due=999.9)
    assert load(left_to_others, facts=alone) == {}
    assert load(lane("*-EU", Priority.RETRY, 1, due=990.0), facts=alone) == {("q", "*"): 1}


def test_of_several_limits_the_one_that_lets_the_fewest_start_counts():
    source = Source(
        Lane("q", "EU", Priority.NORMAL), 0.0, (Cap("a", 9), Rate("b", 2, 60.0), Cap("c", 4))
    )
    assert tightest(source.limits) == (2, "b")
    assert tightest(()) is None
