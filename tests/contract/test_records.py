"""What running jobs record about themselves: steps, progress, log lines, checkpoints."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.job import Claim, Lease
from mulligan.core.outcome import Later, Returned
from mulligan.core.record import Record, Recording, line_value, progress_value
from mulligan.core.settings import BATCH_LIMIT, LINE_LIMIT, LOG_LIMIT
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import (
    FRESH,
    REAPER,
    RETRY,
    adopted_from,
    again,
    begin,
    dead,
    done,
    job,
    jobs,
    start,
)


def step(number: int, name: str, value: bytes = b"1") -> Record:
    return Record("step", number, value, name)


def line(number: int, text: str) -> Record:
    return Record("log", number, b'"' + text.encode() + b'"')


def progress(number: int, done: int) -> Record:
    return Record("progress", number, b'{"done":%d,"of":9,"note":null}' % done)


def checkpoint(number: int, value: bytes) -> Record:
    return Record("checkpoint", number, value)


def recording(claim: Claim, *records: Record) -> Recording:
    return Recording(claim.lease, records)


def told(records: list[Record]) -> list[tuple[str, str, bytes | None]]:
    return [(each.kind, each.name, each.value) for each in records]


async def test_all_that_an_attempt_records_is_read_in_its_order(store, clock):
    [claim] = await begin(store, job("a"))
    clock.advance(1)
    first = recording(claim, step(1, "charge", b'{"id":7}'), line(2, "charged"))
    assert await store.record([first]) == ["recorded"]
    clock.advance(1)
    second = recording(claim, progress(3, 5), checkpoint(4, b"[1]"), step(5, "ship ☃", b"null"))
    assert await store.record([second]) == ["recorded"]
    found = await store.records("a")
    assert told(found) == [
        ("step", "charge", b'{"id":7}'),
        ("log", "", b'"charged"'),
        ("progress", "", b'{"done":5,"of":9,"note":null}'),
        ("checkpoint", "", b"[1]"),
        ("step", "ship ☃", b"null"),
    ]
    assert [each.at for each in found] == [clock.now - 1] * 2 + [clock.now] * 3
    assert [(each.token, each.number) for each in found] == [(claim.token, i) for i in range(1, 6)]
    assert found[0].size == len(b'{"id":7}')


async def test_a_job_that_recorded_nothing_and_an_unknown_one_have_no_records(store):
    await begin(store, job("a"))
    assert await store.records("a") == await store.records("nobody") == []
    assert await store.record([]) == []


async def test_the_first_record_of_a_step_stays(store):
    [claim] = await begin(store, job("a"))
    await store.record([recording(claim, step(1, "charge", b"1"))])
    assert await store.record([recording(claim, step(2, "charge", b"2"))]) == ["recorded"]
    assert told(await store.records("a")) == [("step", "charge", b"1")]


async def test_the_newest_progress_and_checkpoint_stay(store):
    [claim] = await begin(store, job("a"))
    for number in (1, 3, 5):
        sent = recording(claim, progress(number, number), checkpoint(number + 1, b"%d" % number))
        await store.record([sent])
    assert [each.value for each in await store.records("a")] == [
        b'{"done":5,"of":9,"note":null}',
        b"5",
    ]


async def test_of_log_lines_the_newest_stay_also_over_attempts(store, clock):
    [claim] = await begin(store, job("a"))
    await store.record([recording(claim, step(1, "zero"), *(line(i, f"a{i}") for i in (2, 3, 4)))])
    await store.commit([again(claim)])
    second = await start(store, RETRY)
    lines = [line(i, f"b{i}") for i in range(1, LOG_LIMIT)]
    await store.record([recording(second, *lines[:100]), recording(second, *lines[100:])])
    found = [each.value for each in await store.records("a")]
    assert found == [b"1", b'"a4"', *(each.value for each in lines)]
    await store.record([recording(second, line(LOG_LIMIT, "last"))])
    found = [each.value for each in await store.records("a")]
    assert (len(found), found[:2], found[-1]) == (LOG_LIMIT + 1, [b"1", b'"b1"'], b'"last"')


async def test_what_is_sent_again_is_recorded_once(store, clock):
    [claim] = await begin(store, job("a"))
    sent = [recording(claim, line(1, "one"), progress(2, 3), step(3, "x", b"4"))]
    assert await store.record(sent) == ["recorded"]
    before = await store.records("a")
    clock.advance(5)
    assert await store.record(sent) == ["recorded"]
    assert await store.records("a") == before


async def test_what_was_sent_before_the_last_records_changes_nothing_when_it_comes_again(store):
    [claim] = await begin(store, job("a"))
    first = recording(claim, progress(1, 1), checkpoint(2, b"1"), line(3, "one"))
    await store.record([first])
    await store.record([recording(claim, progress(4, 2), checkpoint(5, b"2"), line(6, "two"))])
    before = await store.records("a")
    assert await store.record([first]) == ["recorded"]
    assert await store.records("a") == before


@pytest.mark.parametrize("end", ["done", "again", "dead", "later", "returned"])
async def test_no_outcome_leaves_a_lease_that_could_record(store, end):
    [claim] = await begin(store, job("a"))
    await store.record([recording(claim, step(1, "x"))])
    outcome = {
        "done": done(claim),
        "again": again(claim),
        "dead": dead(claim),
        "later": Later(claim.lease, 0.0),
        "returned": Returned(claim.lease),
    }[end]
    await store.commit([outcome])
    assert await store.record([recording(claim, step(2, "y"))]) == ["stale"]
    assert told(await store.records("a")) == [("step", "x", b"1")]


async def test_a_stale_recording_changes_nothing_and_holds_up_no_other(store, clock):
    first, second = await begin(store, *jobs("a", "b"))
    clock.advance(100)
    reclaimed = [each for each in await store.reclaim(10, REAPER) if each.id == "a"]
    # b was reclaimed too; who holds it now records
    [b] = [each for each in [(await store.get("b"))] if each is not None]
    answers = await store.record(
        [
            recording(first, step(1, "x"), line(2, "late"), progress(3, 1), checkpoint(4, b"9")),
            Recording(Lease("b", b.token), (step(1, "y"),)),
            Recording(Lease("nobody", 1), (step(1, "z"),)),
            recording(second, step(2, "w")),
        ]
    )
    assert answers == ["stale", "recorded", "stale", "stale"]
    assert await store.records("a") == []
    assert told(await store.records("b")) == [("step", "y", b"1")]
    assert reclaimed[0].token > first.token


async def test_cancel_makes_records_stale(store):
    [claim] = await begin(store, job("a"))
    await store.record([recording(claim, step(1, "x"))])
    await store.cancel(["a"], "no more")
    assert await store.record([recording(claim, step(2, "y"))]) == ["stale"]
    assert told(await store.records("a")) == [("step", "x", b"1")]


async def test_a_lease_that_ran_out_and_was_not_reclaimed_still_records(store, clock):
    [claim] = await begin(store, job("a"))
    clock.advance(1000)
    assert await store.record([recording(claim, step(1, "x"))]) == ["recorded"]


async def test_a_later_attempt_finds_what_earlier_ones_recorded(store):
    [claim] = await begin(store, job("a"))
    await store.record([recording(claim, step(1, "x", b"7"), checkpoint(2, b"1"))])
    await store.commit([again(claim)])
    second = await start(store, RETRY)
    assert told(await store.records("a")) == [("step", "x", b"7"), ("checkpoint", "", b"1")]
    await store.record([recording(second, step(1, "x", b"8"), checkpoint(2, b"2"))])
    assert told(await store.records("a")) == [("step", "x", b"7"), ("checkpoint", "", b"2")]


async def test_replay_keeps_records_and_from_start_only_the_log(store):
    [claim] = await begin(store, job("a"))
    sent = [step(1, "x"), line(2, "one"), progress(3, 1), checkpoint(4, b"1")]
    await store.record([recording(claim, *sent)])
    await store.commit([dead(claim)])
    assert await store.replay(["a"]) == [True]
    assert [each.kind for each in await store.records("a")] == [each.kind for each in sent]
    second = await start(store, FRESH)
    await store.record([recording(second, line(1, "two"))])
    await store.commit([dead(second)])
    assert await store.replay(["a"], from_start=True) == [True]
    assert told(await store.records("a")) == [("log", "", b'"one"'), ("log", "", b'"two"')]
    third = await start(store, FRESH)
    await store.record([recording(third, step(1, "x", b"2"))])
    assert told(await store.records("a"))[-1] == ("step", "x", b"2")


async def test_replay_from_start_of_a_job_that_has_not_failed_drops_nothing(store):
    [claim] = await begin(store, job("a"))
    await store.record([recording(claim, step(1, "x"))])
    assert await store.replay(["a"], from_start=True) == [False]
    assert told(await store.records("a")) == [("step", "x", b"1")]


@pytest.mark.parametrize("how", ["purge", "prune"])
async def test_records_go_with_their_job_and_do_not_come_back(store, clock, how):
    [claim] = await begin(store, job("a"))
    sent = (step(1, "x"), line(2, "one"), progress(3, 1), checkpoint(4, b"1"))
    await store.record([recording(claim, *sent)])
    await store.commit([done(claim)])
    assert len(await store.records("a")) == len(sent)
    clock.advance(100)
    if how == "purge":
        await store.purge(["a"])
    else:
        assert await store.prune(50.0, 10) == 1
    assert await store.records("a") == []
    [again_claimed] = await begin(store, job("a"))
    assert await store.records("a") == []
    assert await store.record([recording(claim, step(9, "late"))]) == ["stale"]
    await store.record([recording(again_claimed, step(1, "x", b"2"))])
    assert told(await store.records("a")) == [("step", "x", b"2")]


async def test_records_are_taken_over_from_another_store(store, clock):
    other = MemoryStore(clock=clock)
    [claim] = await begin(other, job("a"))
    await other.record([recording(claim, step(1, "x"), line(2, "one"), progress(3, 1))])
    await other.commit([again(claim, 0.0)])
    claim = await start(other)
    await other.record([recording(claim, checkpoint(4, b"1"), step(5, "y"))])
    clock.advance(3)
    assert await store.adopt(await adopted_from(other, "a")) == [True]
    taken = await store.records("a")
    assert told(taken) == told(await other.records("a"))
    assert [each.at for each in taken] == [clock.now - 3] * 5
    here, there = await store.get("a"), await other.get("a")
    assert here is not None
    assert there is not None
    moved = here.token - there.token
    assert [each.token - moved for each in taken] == [e.token for e in await other.records("a")]
    mine = await start(store)
    await store.record([recording(mine, step(1, "x", b"2"), line(2, "two"), checkpoint(3, b"5"))])
    assert told(await store.records("a")) == [
        ("step", "x", b"1"),
        ("log", "", b'"one"'),
        ("progress", "", progress(0, 1).value),
        ("step", "y", b"1"),
        ("log", "", b'"two"'),
        ("checkpoint", "", b"5"),
    ]


async def test_long_steps_and_checkpoints_are_left_out_on_request_and_lines_and_progress_never(
    store,
):
    [claim] = await begin(store, job("a"))
    long = b'"' + b"x" * 300_000 + b'"'
    text, noted = line_value("☃" * LINE_LIMIT), progress_value(1, 2, "☃" * LINE_LIMIT)
    await store.record([recording(claim, step(1, "long", long), step(2, "short"))])
    await store.record([recording(claim, checkpoint(3, long), Record("log", 4, text))])
    await store.record([recording(claim, Record("progress", 5, noted))])
    found = await store.records("a", 100)
    assert [(each.value, each.size) for each in found] == [
        (None, len(long)),
        (b"1", 1),
        (None, len(long)),
        (text, len(text)),
        (noted, len(noted)),
    ]
    everything = [long, b"1", long, text, noted]
    assert [each.value for each in await store.records("a")] == everything


async def test_a_thousand_steps_are_all_there(store):
    [claim] = await begin(store, job("a"))
    for first in range(1, 1001, 250):
        steps = [step(i, f"step-{i}", b"%d" % i) for i in range(first, first + 250)]
        assert await store.record([recording(claim, *steps)]) == ["recorded"]
    found = await store.records("a")
    assert [each.name for each in found] == [f"step-{i}" for i in range(1, 1001)]
    assert [each.value for each in found] == [b"%d" % i for i in range(1, 1001)]


async def test_two_recordings_of_one_lease_in_a_batch_are_kept_in_order(store):
    [claim] = await begin(store, job("a"))
    batch = [recording(claim, progress(1, 1)), recording(claim, progress(2, 2), step(3, "x"))]
    assert await store.record(batch) == ["recorded", "recorded"]
    assert [each.number for each in await store.records("a")] == [2, 3]


async def test_too_large_a_batch_is_refused(store):
    [claim] = await begin(store, job("a"))
    with pytest.raises(InvalidError, match="over the limit"):
        await store.record([recording(claim, step(1, "x"))] * (BATCH_LIMIT + 1))
    assert await store.records("a") == []
