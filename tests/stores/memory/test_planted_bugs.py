"""The contract's tests of debounce, throttle and gathers see each bug that is planted here."""

from collections.abc import Callable
from typing import Any

import pytest

from mulligan.core.unique import holds_key
from mulligan.stores.memory import MemoryStore
from mulligan.stores.rules import end, enqueue, gather
from tests.contract import test_debounce, test_gathered_failures, test_throttle
from tests.store_kit import VirtualClock

debounce, arrive = enqueue.debounce, gather.arrive


def keeps_the_first_arguments(tx: Any, row: Any, new: Any) -> None:
    """Debounce loses the last arguments."""
    task, body = row.task, row.body
    debounce(tx, row, new)
    row.task, row.body = task, body


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


async def runs_again_for_a_late_arrival(tx: Any, arrived: Any) -> None:
    """A gathering job runs once more when a member is replayed after the end."""
    gathering = await tx.job(arrived.gathering)
    awaits = gathering.awaits
    await arrive(tx, arrived)
    if not awaits:
        enqueue.join_lane(tx, gathering, gathering.first_lane, 0.0)


async def never_arrives(tx: Any, purged: Any) -> None:
    """A purged member never arrives."""


async def keeps_its_failure(tx: Any, withdrawn: Any) -> None:
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
        *(end, "holds_key", is_free_when_it_has_ended),
        test_throttle.test_pruning_does_not_free_it,
    ),
    (
        *(gather, "arrive", runs_again_for_a_late_arrival),
        test_gathered_failures.test_a_member_that_is_replayed_after_the_end_changes_nothing,
    ),
    (
        *(gather, "member_purged", never_arrives),
        test_gathered_failures.test_a_failed_member_of_an_earlier_gather_arrives_when_it_is_purged,
    ),
    (
        *(gather, "withdraw", keeps_its_failure),
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
    monkeypatch.setattr(end, "holds_key", is_kept_when_cancelled)
    monkeypatch.setattr(enqueue, "holds_key", is_kept_when_cancelled)
    clock = VirtualClock()
    store = MemoryStore(clock=clock)
    with pytest.raises(AssertionError):
        await test_throttle.test_cancelling_frees_it(store, clock, "by hand")
