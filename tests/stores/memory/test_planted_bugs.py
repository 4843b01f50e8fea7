"""The contract's tests of debounce, throttle and gathers see each bug that is planted here."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.core.unique import holds_key
from mulligan.stores.memory import MemoryStore, commit, enqueue
from tests.contract import test_debounce, test_gathered_failures, test_throttle
from tests.store_kit import VirtualClock

debounce, arrive, free_key = enqueue.debounce, commit.arrive, commit.free_key


def keeps_the_first_arguments(state: Any, record: Any, new: Any) -> None:
    """Debounce loses the last arguments."""
    debounce(state, record, replace(new, task=record.new.task, body=record.new.body))


def is_put_off_for_ever(now: float, delay: float, until: float) -> float:
    """Debounce goes beyond the maximum."""
    return now + delay


def holds_until_it_has_ended(job: Any, now: float) -> bool:
    """The key is not freed at the first start."""
    return job.status in ("pending", "processing") or holds_key(job, now)


def is_free_when_it_has_ended(job: Any, now: float) -> bool:
    """A throttled key is freed when its job has ended, or is pruned."""
    return job.status not in ("done", "failed") and holds_key(job, now)


def is_kept_when_cancelled(job: Any, now: float) -> bool:
    """Cancelling does not free the key of a throttled job."""
    return job.status == "cancelled" or holds_key(job, now)


def runs_again_for_a_late_arrival(state: Any, record: Any, how: str, value: Any) -> None:
    """What gathers runs once more when a member is replayed after the end."""
    gathering = state.jobs.get(record.new.gather or "")
    arrive(state, record, how, value)
    if gathering is not None and record.replay:
        enqueue.join_lane(state, gathering, gathering.new.lane, 0.0)


def never_arrives(state: Any, record: Any) -> None:
    """A purged member never arrives."""


def keeps_its_failure(state: Any, record: Any) -> None:
    """A member that is replayed before the end does not withdraw its failure."""


Planted = tuple[Any, str, Callable[..., Any], Callable[..., Any]]
BUGS: list[Planted] = [
    (
        *(enqueue, "debounce", keeps_the_first_arguments),
        test_debounce.test_a_batch_with_one_key_is_one_job_with_the_last_call,
    ),
    (
        *(enqueue, "debounced_due", is_put_off_for_ever),
        test_debounce.test_it_is_never_put_off_longer_than_the_maximum_after_the_first,
    ),
    (
        *(enqueue, "holds_key", holds_until_it_has_ended),
        test_debounce.test_the_key_is_free_at_the_first_start,
    ),
    (
        *(commit, "holds_key", is_free_when_it_has_ended),
        test_throttle.test_pruning_does_not_free_it,
    ),
    (
        *(commit, "arrive", runs_again_for_a_late_arrival),
        test_gathered_failures.test_a_member_that_is_replayed_after_the_end_changes_nothing,
    ),
    (
        *(commit, "purge_awaited", never_arrives),
        test_gathered_failures.test_a_failed_member_of_an_earlier_gather_arrives_when_it_is_purged,
    ),
    (
        *(commit, "withdraw", keeps_its_failure),
        test_gathered_failures.test_a_member_that_is_replayed_before_the_end_withdraws_its_failure,
    ),
]


async def run(test: Callable[..., Any]) -> None:
    """Run a test of the contract on a memory store."""
    clock = VirtualClock()
    given = {"store": MemoryStore(clock=clock), "clock": clock}
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    await test(**{name: given[name] for name in wanted})


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[2].__name__)
async def test_a_planted_bug_is_caught(bug, monkeypatch):
    target, name, planted, test = bug
    await run(test)
    monkeypatch.setattr(target, name, planted)
    with pytest.raises((AssertionError, KeyError)):
        await run(test)


async def test_a_cancelled_job_that_keeps_its_key_is_caught(monkeypatch):
    monkeypatch.setattr(commit, "holds_key", is_kept_when_cancelled)
    monkeypatch.setattr(enqueue, "holds_key", is_kept_when_cancelled)
    clock = VirtualClock()
    store = MemoryStore(clock=clock)
    with pytest.raises(AssertionError):
        await test_throttle.test_cancelling_frees_it(store, clock, "by hand")
