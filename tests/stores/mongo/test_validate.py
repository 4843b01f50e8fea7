"""Private fields that are no longer what mulligan wrote."""

from pkgutil import resolve_name

import pytest
from bson import Binary, Code, Int64

from mulligan.core.limits import Limit
from mulligan.core.outcome import Later
from tests.contract.builders import (
    ANN,
    ANYONE,
    REAPER,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
)
from tests.stores.mongo.steps import RAW, plain, without_outcome

ODD_KEYS = [{"a": 1}, 7, Int64(2**40), Binary(b"x"), Code("x"), Code("x", {"a": 1})]


@pytest.mark.parametrize("key", ODD_KEYS, ids=repr)
@pytest.mark.parametrize("status", ["pending", "processing"])
async def test_a_document_like_ours_under_another_kind_of_key_is_set_aside(
    store, tasks, clock, key, status
):
    await store.enqueue(jobs("a"))
    copy = tasks.find_one_and_delete({"_id": "a"})
    copy["mulligan"] |= {"worker": "gone"} if status == "processing" else {}
    tasks.insert_one(copy | {"_id": key, "status": status})
    [before] = tasks.with_options(RAW).find()
    await store.enqueue(jobs("good"))
    assert names(await claim(store, demand=5)) == ["good"]
    assert await store.reclaim(10, REAPER) == []
    [bad] = tasks.with_options(RAW).find({"status": "failed"})
    assert bad["error"]["message"].startswith("malformed: _id ")
    assert without_outcome(bad) == without_outcome(before)


OWING = ("owes", "unbooked", "outbox")
OWED = {
    "an arrival": {"owes": "arrival", "gather": "g", "gather_index": 0},
    "a removal": {"owes": "removal", "gather": "g", "gather_index": 0},
    "an event": {"unbooked": [{"id": "1.ab", "kind": "joined"}]},
    "a box without jobs": {"outbox": {"stamp": "1.ab"}},
    "a box with a job of others": {"outbox": {"stamp": "1.ab", "jobs": [{"_id": "n"}]}},
    "a box that is a list": {"outbox": [{"stamp": "1.ab"}]},
}


@pytest.mark.parametrize("key", ["b", *ODD_KEYS], ids=repr)
@pytest.mark.parametrize("owed", OWED)
@pytest.mark.parametrize("status", ["done", "cancelled"])
async def test_whatever_an_ended_document_owes_the_upkeep_goes_on_and_finds_it_but_once(
    store, tasks, key, owed, status
):
    await store.enqueue(jobs("a"))
    copy = tasks.find_one_and_delete({"_id": "a"})
    copy["mulligan"] |= OWED[owed]
    tasks.insert_one(copy | {"_id": key, "status": status})
    await store.enqueue([job("late", expires=0.0)])
    assert await store.promote(100) == 1
    left = [each["mulligan"] for each in tasks.find({"_id": {"$ne": "late"}})]
    assert not [private[name] for private in left for name in OWING if private.get(name)]


@pytest.mark.parametrize("where", ["workers.ending", "inbox.taken_in"])
async def test_a_document_that_raises_what_nobody_expects_is_set_aside_alone(
    store, tasks, clock, monkeypatch, where
):
    name = f"mulligan.stores.mongo.{where}"
    real = resolve_name(name)

    def raises(doc, *rest):
        if doc["_id"] == "bad":
            raise ArithmeticError
        return real(doc, *rest)

    monkeypatch.setattr(name, raises)
    if where == "inbox.taken_in":
        tasks.insert_many([plain(clock, "bad"), plain(clock, "good")])
        assert names(await claim(store, ANYONE, demand=5)) == ["good"]
    else:
        await begin(store, *jobs("bad", "good"))
        await store.leave(ANN)
        assert [each.id for each in await store.reclaim(10, REAPER)] == ["good"]
    [bad] = tasks.find({"status": "failed"})
    assert bad["_id"] == "bad"
    assert bad["error"]["message"].startswith("malformed: ArithmeticError")


@pytest.mark.parametrize("permits", [[None, 7, {"a": 1}, "gone"], [["x"]], 7, None], ids=repr)
async def test_whatever_stands_among_the_permits_of_a_running_job_it_ends(
    store, another, tasks, permits
):
    first, second = await begin(store, *jobs("a", "b"))
    tasks.update_many({}, {"$set": {"mulligan.permits": permits}})
    assert await another.commit([done(first)]) == ["written"]
    await store.leave(ANN)
    for each in await store.reclaim(10, REAPER):
        assert await store.commit([done(each)]) == ["written"]
    assert (await store.get(second.id)).status in ("done", "failed")


@pytest.mark.parametrize("fields", [{"due": "x"}, {"limits": "odd"}, {"token": None}], ids=repr)
async def test_a_damaged_job_that_waits_for_a_limit_is_set_aside_and_the_next_one_starts(
    store, tasks, fields
):
    [first] = (await claim_of_limit(store, "a", "b", "c")).claims
    tasks.update_one(
        {"_id": "b"}, {"$set": {f"mulligan.{name}": value for name, value in fields.items()}}
    )
    assert await store.commit([done(first)]) == ["written"]
    assert names(await claim(store, demand=3)) == ["c"]
    assert (await store.get("b")).status == "failed"


async def claim_of_limit(store, *ids):
    """Claim the first of jobs of which one may run at a time; the others wait."""
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue(jobs(*ids, limits='{"k":1}'))
    return await claim(store, demand=len(ids))


@pytest.mark.parametrize(
    ("field", "value", "outcome"),
    [
        ("mulligan.history", "x", again),
        ("mulligan.history", "x", dead),
        ("mulligan.stamps", 7, done),
        ("mulligan.stamps", None, done),
        ("attempts", "x", again),
        ("mulligan.snoozes", "x", lambda claim: Later(claim.lease, 1.0)),
    ],
)
async def test_an_outcome_is_written_whatever_another_program_put_where_it_adds_something(
    store, tasks, field, value, outcome
):
    """What was there is set aside; the others of the batch are not held up."""
    await store.enqueue(jobs("a", "b"))
    first, second = (await claim(store, demand=2)).claims
    tasks.update_one({"_id": first.id}, {"$set": {field: value}})

    verdicts = await store.commit([outcome(first), done(second)])

    assert "stale" not in verdicts
    aside = tasks.find_one({"_id": first.id, f"{field}_invalid": value})
    assert aside is not None
    assert aside["status"] != "processing"
    assert (await store.get(second.id)).status == "done"
    if outcome is not done:
        await store.history(first.id)
