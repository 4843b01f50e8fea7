"""Jobs that were adopted from another store: their past is known, and held against this one."""

from typing import Any

import pytest

from mulligan.stores.memory import MemoryStore
from tests.contract.builders import adopted_from, again, begin, claim, dead, done, job, jobs
from tests.history import InMemory, check, in_order, line, recorded, take_stock
from tests.history.events import Enqueue, Kept, Past
from tests.history.story import FRESH, RETRY, Story, lease

FAILED = (1, "E", "no")
RETRIED = Past("pending", RETRY, retry_count=1, failures=[FAILED])
DEAD = Past("failed", FRESH, replay=2, failures=[FAILED])


class Adopting(Story):
    def adopt(
        self, job: str, past: Past, *, taken: bool | None = True, **fields: Any
    ) -> "Adopting":
        """A job is taken over, or there before, or nobody knows."""
        usual: dict[str, Any] = {"max_retries": 5}
        return self.enqueue(
            job, first=None if taken is not False else job, lost=taken is None, past=past,
            **(usual | fields),
        )  # fmt: skip


async def test_what_jobs_had_behind_them_is_written_down_and_goes_on():
    other, journal = MemoryStore(), InMemory()
    retried, ended, _ = await begin(other, *jobs("retried", "dead", "running"))
    await other.commit([again(retried), dead(ended)])
    await other.enqueue([job("waiting", unique_key="k", expires=60.0)])
    store = recorded(MemoryStore(), journal, "p")

    moved = await adopted_from(other, "retried", "dead", "running", "waiting")
    assert await store.adopt(moved) == [True] * 4
    assert await store.adopt(moved) == [False] * 4
    claims = {each.id: each for each in (await claim(store, demand=4)).claims}
    await store.commit([done(each) for each in claims.values()])
    await store.replay(["dead"])

    assert claims.keys() == {"retried", "running", "waiting"}
    [first] = [event for event in journal.events if isinstance(event, Enqueue)][:1]
    assert [new.past and new.past.retry_count for new in first.jobs] == [1, 0, 0, 0]
    assert "adopt retried, dead, running, waiting" in line(first)
    stock = await take_stock(store, rest=False)
    assert check([*in_order(journal.events), stock]) == []


async def test_members_that_had_arrived_are_not_awaited():
    other, journal = MemoryStore(), InMemory()
    whole = [job("all", awaits=2), *(job(f"m{n}", gather="all", gather_index=n) for n in range(2))]
    first, *_ = await begin(other, *whole)
    await other.commit([done(first)])
    store = recorded(MemoryStore(), journal, "p")

    left = "m1" if first.id == "m0" else "m0"
    await store.adopt(await adopted_from(other, "all", left))
    for _ in range(2):
        await store.commit([done(each) for each in (await claim(store)).claims])

    assert check([*journal.events, await take_stock(store, rest=True)]) == []


def test_an_adopted_job_goes_on_where_it_had_come_to():
    story = Adopting().adopt("j", RETRIED).claim(lease("j", 9, lane=RETRY, retry_count=1))
    assert story.commit("j", 9, "done").broken() == set()


def test_an_adopted_job_that_begins_anew_shows():
    story = Adopting().adopt("j", RETRIED).claim(lease("j", 9))
    assert story.broken() == {"attempts are counted", "lanes are kept"}


def test_an_adopted_dead_letter_is_not_started():
    story = Adopting().adopt("j", DEAD).claim(lease("j", 9, replay=2))
    assert story.broken() == {"ended is ended"}


def test_an_adopted_dead_letter_is_replayed_once_more():
    story = Adopting().adopt("j", DEAD).operate("replay", "j").claim(lease("j", 9, replay=3))
    assert story.broken() == set()


@pytest.mark.parametrize("kept", [[], [(1, "E", "something else")]])
def test_failures_that_were_lost_on_the_way_show(kept):
    story = Adopting().adopt("j", DEAD).stock(Kept("j", "failed", replay=2, failures=kept))
    assert story.broken() == {"failures are true"}


def test_an_adopted_job_that_is_not_stored_was_lost():
    assert Adopting().adopt("j", RETRIED).stock().broken() == {"nothing is lost"}


def test_what_nobody_knows_to_be_adopted_may_be_stored_or_not():
    kept = Kept("j", "failed", replay=2, failures=[FAILED])
    assert Adopting().adopt("j", DEAD, taken=None).stock(kept).broken() == set()
    assert Adopting().adopt("j", DEAD, taken=None).stock().broken() == set()


def test_what_was_adopted_before_is_refused_and_so_is_a_key_that_is_taken():
    twice = Adopting().adopt("j", DEAD, taken=None).adopt("j", DEAD, taken=False)
    assert twice.stock().broken() == {"nothing is lost"}
    key = ("default", "k")
    story = (
        Adopting()
        .adopt("j", RETRIED, taken=None, key=key)
        .adopt("j", RETRIED, taken=False, key=key)
    )
    assert story.stock().broken() == set()


def test_two_replays_of_an_adopted_job_are_ordered_by_the_leases_after_them():
    """Both are asked for by another process, and overlap all that is told of the job."""
    story = Adopting().adopt("j", DEAD)
    story.operate("replay", "j").claim(lease("j", 9, replay=3))
    story.commit("j", 9, "dead", number=1, type="E", message="no").operate("replay", "j")
    story.claim(lease("j", 10, replay=4))
    events = story.timed()
    for event in events[1:]:
        event.began, event.ended = 2.0, 9.0
    replays = [events[1], events[4]]
    for event in replays:
        event.process = "operator"
    assert check(in_order(reversed(events))) == []


def test_an_adopted_job_may_expire_at_any_time():
    story = Adopting().adopt("j", Past("pending", FRESH), expires=0.0)
    assert story.stock(Kept("j", "cancelled")).broken() == set()
    story = Adopting().adopt("j", Past("pending", FRESH), expires=0.0).wait(99)
    assert story.claim(lease("j", 9)).broken() == set()
