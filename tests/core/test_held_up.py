"""Due jobs that a paused limit keeps from starting, and limits that operators should see."""

from msgspec.structs import replace

from mulligan.core.alerts import alerts
from mulligan.core.facts import Facts, Region
from mulligan.core.held_up import HeldUp, held_up, paused_limits, tight_limits
from mulligan.core.lane import Lane, Priority
from mulligan.core.limits import LimitView, StoredLimit
from mulligan.core.stats import LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from tests.core.jobs import WAITING

NOW = 1000.0
RETRIES = Lane("questions", "*", Priority.RETRY)
FRESH = WAITING.lane
LATE = replace(
    WAITING, scope="*", lane_priority=Priority.RETRY, retry_count=1, due=900.0, limits='{"api":1}'
)
FREE = replace(LATE, limits=None, due=950.0)
SERVED = Stats(
    NOW,
    [LaneStats(RETRIES, 2, 0, 900.0), LaneStats(FRESH, 1, 0, 990.0)],
    {},
    {},
    {},
    [WorkerView(Worker("w", "US", ("questions",)), NOW, 0.0, live=True, running=0)],
)
FACTS = Facts(regions=(Region("US", frozenset({"questions"})),))


def limit(name, **changes):
    return LimitView(name, StoredLimit(), None, **changes)


def test_retries_that_wait_for_a_paused_limit_are_not_late():
    assert any("has waited 100 s" in said for said in alerts(SERVED, FACTS))
    held = held_up([LATE, LATE], {"api"}, NOW)
    assert alerts(SERVED, FACTS, held_up=held) == []


def test_of_other_retries_the_oldest_counts():
    held = held_up([LATE, FREE], {"api"}, NOW)
    [said] = alerts(SERVED, FACTS, held_up=held)
    assert "has waited 50 s" in said
    assert held.startable(SERVED.lanes) == [LaneStats(RETRIES, 1, 0, 950.0), SERVED.lanes[1]]


def test_retries_held_up_do_not_count_as_many_global_ones():
    many = replace(SERVED, lanes=[LaneStats(RETRIES, 30, 0, NOW - 1)])
    assert alerts(many, FACTS) == ["30 global retries wait, more than 10"]
    pending = [replace(LATE, due=NOW - 1)] * 25 + [replace(FREE, due=NOW - 1)] * 5
    assert alerts(many, FACTS, held_up=held_up(pending, {"api"}, NOW)) == []


def test_a_queue_is_held_up_where_all_of_its_due_jobs_wait_for_paused_limits():
    both = replace(LATE, limits='{"api":1,"disk":2}')
    assert held_up([LATE, both], {"api", "disk"}, NOW).queues == {"questions": ["api", "disk"]}
    assert held_up([LATE, FREE], {"api"}, NOW).queues == {}
    later, awaiting = replace(FREE, due=NOW + 1), replace(FREE, awaits=1)
    assert held_up([LATE, later, awaiting], {"api"}, NOW).queues == {"questions": ["api"]}
    assert held_up([], {"api"}, NOW) == HeldUp()


def test_paused_limits_are_told_before_full_ones_and_others_not_at_all():
    views = [
        limit("done", paused_until=NOW),
        limit("full", waiting=1, running=4),
        limit("fuller", waiting=9, room_at=NOW + 1),
        limit("idle"),
        limit("paused", paused_until=NOW + 60, room_at=NOW + 60),
        limit("roomy", waiting=5, room_at=NOW),
    ]
    assert paused_limits(views, NOW) == {"paused"}
    told = tight_limits(views, NOW)
    assert [(each["name"], each["state"]) for each in told] == [
        ("paused", "paused"),
        ("fuller", "full"),
        ("full", "full"),
    ]
    assert told[0]["paused_until"] == NOW + 60
    assert told[2] == {
        "name": "full",
        "state": "full",
        "paused_until": None,
        "waiting": 1,
        "running": 4,
    }
