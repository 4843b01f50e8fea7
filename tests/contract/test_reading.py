"""What a reader sees: jobs, pages of them, counts of everything."""

from collections import Counter
from itertools import chain

import pytest
from msgspec.structs import replace

from mulligan.core.errors import InvalidError
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit
from mulligan.core.outcome import Cancelled, Later
from mulligan.core.page import Selection
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.stats import DelayedStats
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    RETRY,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    start,
)


async def test_an_unknown_job_is_none_and_has_no_history(store):
    assert await store.get("nobody") is None
    assert await store.history("nobody") == []


async def test_the_statuses_of_many_jobs_are_read_at_once(store):
    claims = await begin(store, *jobs("done", "failed", "running", "stopped", "retried"))
    ended, failed, running, stopped, retried = claims
    await store.commit([done(ended), dead(failed), again(retried)])
    await store.cancel([stopped.id], "enough")
    await store.enqueue(jobs("waiting"))
    asked = [each.id for each in claims] + ["waiting", "nobody"]
    assert await store.statuses(asked) == {
        "done": "done",
        "failed": "failed",
        "running": "processing",
        "stopped": "cancelled",
        "retried": "pending",
        "waiting": "pending",
    }
    assert running.id == "running"
    assert await store.statuses([]) == await store.statuses(["nobody"]) == {}
    assert await store.replay(["failed"]) == [True]
    assert await store.statuses(["failed"]) == {"failed": "pending"}
    with pytest.raises(InvalidError, match="over the limit"):
        await store.statuses(["a"] * (BATCH_LIMIT + 1))


async def test_sequences_follow_the_order_in_which_jobs_join_a_lane(store):
    await store.enqueue(jobs("a", "b"))
    first = await start(store)
    await store.commit([again(first, lane=FRESH)])
    a, b = await store.get("a"), await store.get("b")
    assert b.sequence < a.sequence


async def pages(store, selection, limit):
    """Every page of the selection, as lists of ids."""
    found, after = [], None
    while True:
        page = await store.page(selection, limit, after)
        found.append([each.id for each in page.jobs])
        after = page.after
        if after is None:
            return found


async def test_pages_walk_everything_once_newest_first(store, clock):
    for n in range(7):
        await store.enqueue(jobs(f"j{n}"))
        clock.advance(1)
    assert await pages(store, Selection(), 3) == [["j6", "j5", "j4"], ["j3", "j2", "j1"], ["j0"]]
    assert await pages(store, Selection(), 7) == [[f"j{n}" for n in range(6, -1, -1)]]
    assert await pages(store, Selection(), 100) == [[f"j{n}" for n in range(6, -1, -1)]]


async def test_jobs_of_one_batch_are_each_on_one_page(store):
    many = [f"j{n}" for n in range(25)]
    await store.enqueue(jobs(*many))
    walked = list(chain(*await pages(store, Selection(), 4)))
    assert sorted(walked) == sorted(many)


async def test_jobs_that_come_or_change_meanwhile_do_not_disturb_a_walk(store, clock):
    for n in range(6):
        await store.enqueue(jobs(f"j{n}"))
        clock.advance(1)
    first = await store.page(Selection(), 3)
    await store.enqueue(jobs("new"))
    await store.commit([done(each) for each in (await claim(store, demand=3)).claims])
    second = await store.page(Selection(), 3, first.after)
    assert [each.id for each in first.jobs + second.jobs] == ["j5", "j4", "j3", "j2", "j1", "j0"]


async def test_an_empty_store_has_one_empty_page(store):
    page = await store.page(Selection(), 10)
    assert (page.jobs, page.after) == ([], None)


async def test_a_page_shows_jobs_as_get_does(store):
    [first] = await begin(store, job("a"))
    await store.commit([again(first)])
    assert (await store.page(Selection(), 10)).jobs == [await store.get("a")]


async def test_a_page_without_bodies_shows_all_else_as_get_does(store):
    retried, finished, _ = await begin(store, *jobs("a", "b", "c"))
    await store.commit([again(retried), done(finished, b'"x"')])
    page = await store.page(Selection(), 10, bodies=False)
    assert len(page.jobs) == 3
    for each in page.jobs:
        whole = await store.get(each.id)
        assert whole.body
        assert each == replace(whole, body=b"", result=None)
    for status in ("pending", "processing", "done"):
        listed = (await store.page(Selection(status=status), 10, bodies=False)).jobs
        assert listed == [each for each in page.jobs if each.status == status]


@pytest.mark.parametrize("status", [None, "failed"])
@pytest.mark.parametrize("queue", [None, "default"])
async def test_a_text_is_sought_in_so_many_jobs_and_then_the_page_ends(store, status, queue):
    begun = await begin(store, *jobs(*(f"j{n}" for n in range(7))))
    await store.commit([dead(each, "rare" if each.id == "j0" else "boom") for each in begun])
    wanted, found, after = Selection(status=status, queue=queue, text="rare"), [], None
    for _ in range(3):
        page = await store.page(wanted, 5, after, looks=3)
        found.append([each.id for each in page.jobs])
        after = page.after
        assert (after is None) == (len(found) == 3)
    assert found == [[], [], ["j0"]]
    common = Selection(status=status, queue=queue, text="boom")
    assert len((await store.page(common, 2, looks=3)).jobs) == 2
    first = await store.page(common, 3, looks=3)
    rest = await store.page(common, 10, first.after)
    assert [each.id for each in first.jobs + rest.jobs] == ["j6", "j5", "j4", "j3", "j2", "j1"]


async def test_a_selection_is_every_field_that_is_given(store):
    mail = [job("m1", queue="mail"), job("m2", queue="mail", region="EU", task="send")]
    await store.enqueue([job("a"), job("b", region="EU"), *mail])
    await store.commit([done(await start(store))])

    async def found(**fields):
        return sorted(chain(*await pages(store, Selection(**fields), 2)))

    assert await found(status="done") == ["a"]
    assert await found(status="pending") == ["b", "m1", "m2"]
    assert await found(queue="mail") == ["m1", "m2"]
    assert await found(region="EU") == ["b", "m2"]
    assert await found(task="send") == ["m2"]
    assert await found(queue="mail", region="EU", status="pending") == ["m2"]
    assert await found(queue="mail", status="failed") == []
    assert await found(queue="nothing") == []


async def test_text_is_sought_in_the_last_failure(store):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    await store.commit([dead(first, "100% of_it [broke]"), again(second, message="timed out")])
    await store.commit([dead(third, "something else")])

    async def found(text):
        return sorted(chain(*await pages(store, Selection(text=text), 2)))

    assert await found("timed out") == ["b"]
    assert await found("ValueError") == ["a", "b", "c"]
    assert await found("100% of_it [broke]") == ["a"]
    assert await found("%") == ["a"]
    assert await found("s_m") == []
    assert await found(".*") == []
    assert await found("e: 1") == []
    assert await found("ValueError: timed") == ["b"]


async def test_stats_equal_a_recount(store, clock):
    eu = replace(BOB, region="EU")
    await store.enqueue([*jobs("a", "b", "c", "d", "e", "f"), *jobs("u", priority=2)])
    await store.enqueue([*jobs("m", queue="mail"), job("late", queue="mail", delay=30.0)])
    taken = (await claim(store, FRESH, demand=6)).claims
    await start(store, Lane("mail", "default", 0), worker=eu)
    await store.commit([done(taken[0]), dead(taken[1]), Cancelled(taken[2].lease, "enough")])
    await store.commit([again(taken[3], delay=10.0), Later(taken[4].lease, 20.0)])
    clock.advance(12)
    await store.enqueue(jobs("g"))
    stats = await store.stats()
    assert stats.now == clock.now
    lanes = {each.lane: (each.ready, each.delayed, each.oldest_due) for each in stats.lanes}
    assert lanes == {
        FRESH: (1, 1, clock.now),
        RETRY: (1, 0, clock.now - 2),
        Lane("default", "default", 2): (1, 0, clock.now - 12),
        Lane("mail", "default", 0): (0, 1, clock.now + 18),
    }
    assert stats.running == {("default", "default"): 1, ("mail", "EU"): 1}
    ended = {("default", status): 1 for status in ("done", "failed", "cancelled")}
    assert stats.ended == ended
    assert stats.delayed == {"default": DelayedStats(2, 1, 2), "mail": DelayedStats(1, 0, 1)}
    views = {each.worker.id: each for each in stats.workers}
    assert {name: view.running for name, view in views.items()} == {"ann-1": 1, "bob-1": 1}
    assert views["bob-1"].worker == eu


async def test_an_empty_store_counts_nothing(store, clock):
    stats = await store.stats()
    assert (stats.now, stats.lanes, stats.running, stats.ended) == (clock.now, [], {}, {})
    assert (stats.delayed, stats.workers) == ({}, [])


async def test_what_is_emptied_appears_no_more(store):
    first, second = await begin(store, job("a"), job("b"))
    await store.commit([done(first)])
    await store.cancel(["b"], "enough")
    await store.purge(["a", "b"])
    stats = await store.stats()
    assert (stats.lanes, stats.running, stats.ended, stats.delayed) == ([], {}, {}, {})
    assert second.id == "b"


async def test_the_delayed_set_counts_what_was_put_off_and_has_not_started(store, clock):
    new = [job("soon", delay=10.0), job("today", delay=5000.0), job("now")]
    await store.enqueue(new)
    assert (await store.stats()).delayed == {"default": DelayedStats(2, 0, 1)}
    clock.advance(10)
    assert (await store.stats()).delayed == {"default": DelayedStats(2, 1, 1)}
    await store.promote(100)
    assert (await store.stats()).delayed == {"default": DelayedStats(2, 1, 1)}
    await claim(store, demand=5)
    assert (await store.stats()).delayed == {"default": DelayedStats(1, 0, 0)}
    clock.advance(1400)
    assert (await store.stats()).delayed == {"default": DelayedStats(1, 0, 1)}


async def test_workers_are_shown_with_their_beats_and_what_they_run(store, clock):
    ann = replace(ANN, queues=("default", "mail"), concurrency=7, only="retries", lease=20.0)
    await store.beat(ann, [])
    joined = clock.now
    clock.advance(5)
    await store.beat(ann, [])
    await begin(store, *jobs("a", "b"), worker=ann)
    clock.advance(19)
    [view] = (await store.stats()).workers
    assert view.worker == ann
    assert (view.joined_at, view.beat_at) == (joined, joined + 5)
    assert (view.live, view.running) == (True, 2)
    clock.advance(1)
    assert not (await store.stats()).workers[0].live
    await store.leave(ann)
    assert (await store.stats()).workers == []


async def test_depth_counts_what_could_start_now_up_to_a_limit(store, clock):
    await store.enqueue([*jobs("a", "b", "c"), job("d", delay=5.0), job("e", region="EU")])
    assert await store.depth(FRESH, 100) == 3
    assert await store.depth(FRESH, 2) == 2
    assert await store.depth(Lane("nothing", "default", 0), 5) == 0
    clock.advance(5)
    assert await store.depth(FRESH, 100) == 4
    await store.cancel(["b"], "enough")
    await claim(store, FRESH)
    assert await store.depth(FRESH, 100) == 2


async def test_ahead_counts_those_before_it_in_its_lane(store, clock):
    await store.enqueue([job("late", delay=50.0), *jobs("a", "b", "c"), job("e", region="EU")])
    assert [await store.ahead(each) for each in ("a", "b", "c", "late", "e")] == [0, 1, 2, 3, 0]
    await store.cancel(["a"], "enough")
    assert await store.ahead("c") == 1
    await claim(store, FRESH)
    assert await store.ahead("c") == 0
    clock.advance(100)
    await store.enqueue(jobs("z"))
    assert [await store.ahead(each) for each in ("late", "z")] == [1, 2]


async def test_jobs_that_were_cancelled_and_purged_are_ahead_of_nobody(store):
    await store.enqueue(jobs(*(f"j{n}" for n in range(9))))
    gone = ["j0", "j3", "j5", "j7", "j8"]
    await store.cancel(gone, "enough")
    assert [await store.ahead(each) for each in ("j1", "j2", "j4", "j6")] == [0, 1, 2, 3]
    await store.purge(gone)
    assert [await store.ahead(each) for each in ("j1", "j2", "j4", "j6")] == [0, 1, 2, 3]
    assert await store.depth(FRESH, 9) == 4
    assert names(await claim(store, demand=9)) == ["j1", "j2", "j4", "j6"]


async def test_nobody_is_ahead_of_a_job_that_stands_in_no_lane(store, clock):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue([*jobs("runs", "waits", limits='{"k":1}'), *jobs("runs too", "ended")])
    claims = (await claim(store, demand=3)).claims
    await store.commit([done(claims[2])])
    clock.advance(1)
    await store.enqueue([job("gathers", awaits=1), job("last")])
    others = ("runs", "runs too", "ended", "gathers")
    assert [await store.ahead(each) for each in ("waits", "last", *others)] == [0, 1, 0, 0, 0, 0]


async def test_asking_who_is_ahead_of_an_unknown_job_is_an_error(store):
    with pytest.raises(LookupError, match="nobody"):
        await store.ahead("nobody")


async def test_every_job_is_in_exactly_one_place(store, clock):
    await store.enqueue([*jobs(*(f"j{n}" for n in range(12))), job("d", delay=99.0)])
    taken = (await claim(store, demand=8)).claims
    await store.commit([done(taken[0]), dead(taken[1]), again(taken[2]), again(taken[3], 5.0)])
    await store.cancel(["j4", "j9"], "enough")
    stats = await store.stats()
    waiting = sum(each.ready + each.delayed for each in stats.lanes)
    running, ended = sum(stats.running.values()), sum(stats.ended.values())
    assert (waiting, running, ended) == (6, 3, 4)
    statuses = Counter([(await store.get(f"j{n}")).status for n in range(12)])
    assert statuses == {"pending": 5, "processing": 3, "done": 1, "failed": 1, "cancelled": 2}
    clock.advance(100)
    assert len(names(await claim(store, demand=99))) == 6
