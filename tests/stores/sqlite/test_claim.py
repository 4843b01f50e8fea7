"""What a claim asks of the file, and what it finds there that another program has changed."""

import pytest

from mulligan.core.lane import Lane
from mulligan.core.limits import Limit
from tests.contract.builders import ANN, BOB, begin, claim, done, job, jobs, names, source
from tests.stores.sqlite.kit import rows, traced


async def test_only_a_lane_where_a_job_stands_makes_a_claim_ask_who_sleeps(store):
    seen = await traced(store)
    empty = [source(Lane("default", f"*+{n}", 1), waited=2.0, yields=True) for n in range(3)]
    await claim(store, *empty, worker=BOB)
    assert not any("l.waited <" in statement for statement in seen)
    await store.enqueue([job("a", region="*+1", priority=1)])
    assert names(await claim(store, *empty, worker=BOB)) == ["a"]
    assert sum("l.waited <" in statement for statement in seen) == 1


@pytest.mark.parametrize(
    "change",
    [
        *(f"number = {number}" for number in (-1, 2**62)),
        *("why = 'x'", "line = 'x'", "line = NULL", "queue = 'x'", "scope = ''"),
        *("lane_priority = -1", "due = 9e999", "due = 1e300", "sequence = -1", "sequence = 99"),
    ],
)
@pytest.mark.parametrize("spoilt", [{"limits": '{"a":1}'}, {"fairness_key": "acme"}])
async def test_a_line_whose_first_job_was_changed_holds_up_no_other(store, db, change, spoilt):
    await store.set_limit("a", Limit(concurrency=9), declared=True)
    await store.enqueue([job("spoilt", **spoilt), job("behind", **spoilt)])
    await store.enqueue(jobs("good"))
    assert db.execute(f"UPDATE held SET {change} WHERE sequence = 1").rowcount == 1  # noqa: S608
    found = names(await claim(store, demand=9))
    assert sorted(set(found) - {"spoilt"}) == ["behind", "good"]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM meta",
        *(
            f"UPDATE meta SET value = {value}"  # noqa: S608
            for value in ("'x'", "''", "x'ff'", "-1", "4611686018427387904", "9e999", "1e300")
        ),
    ],
)
async def test_counters_that_another_program_spoilt_begin_anew(store, db, change):
    [first] = await begin(store, job("first"))
    db.execute(change)
    await store.enqueue(jobs("second"))
    db.execute("INSERT INTO inbox (task, id) VALUES ('ask', 'third')")
    assert await store.commit([done(first)]) == ["written"]
    await store.beat(ANN, [])
    await store.pause("other", paused=True)
    await store.replay(["first"])
    assert names(await claim(store, demand=9)) == ["second"]
    numbers = await rows(store, "SELECT number FROM job ORDER BY number")
    assert numbers == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE named_limit SET declared = 'x'",
        "UPDATE named_limit SET set_instead = '{}'",
        "UPDATE limit_state SET starts = 'x'",
    ],
)
async def test_a_limit_that_another_program_spoilt_holds_until_it_is_declared_again(
    store, db, change
):
    limit = Limit(rate=1, per=60.0)
    await store.set_limit("a", limit, declared=True)
    [first] = await begin(store, job("first", limits='{"a":1}'))
    assert db.execute(change).rowcount == 1
    await store.enqueue([job("second", limits='{"a":1}'), job("good")])
    assert "good" in names(await claim(store, demand=9))
    assert await store.commit([done(first)]) == ["written"]
    await store.set_limit("a", limit, declared=True)
    [view] = await store.limits(10)
    assert view.in_force == limit
