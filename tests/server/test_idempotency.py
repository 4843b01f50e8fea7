"""A write that is sent twice happens once."""

import asyncio

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.page import Selection
from mulligan.server.idempotency import KEEP, KEEP_UNANSWERED
from mulligan.server.tokens import Tokens, digest
from tests.server.conftest import good, refused

KEY = {"Idempotency-Key": "order-4711"}
JOB = {"task": "send"}


async def count(store):
    return len((await store.page(Selection(), 100)).jobs)


async def test_the_answer_to_a_repeated_key_is_the_first_answer(client, serve, store):
    first = await client.post("/api/jobs", json=JOB, headers=KEY)
    assert "idempotency-replayed" not in first.headers
    for each in (client, serve()):  # another server of the store knows it too
        again = await each.post("/api/jobs", json=JOB, headers=KEY)
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["idempotency-replayed"] == "true"
    assert await count(store) == 1


async def test_without_a_key_a_repeated_write_happens_again(client, store):
    await good(client.post("/api/jobs", json=JOB))
    await good(client.post("/api/jobs", json=JOB))
    assert await count(store) == 2


async def test_a_key_belongs_to_one_request(client, store):
    await good(client.post("/api/jobs", json=JOB, headers=KEY))
    other = client.post("/api/jobs", json={"task": "other"}, headers=KEY)
    await refused(other, 422, "another request")
    await refused(client.post("/api/queues/a/pause", headers=KEY), 422, "another request")
    assert await count(store) == 1


async def test_a_key_belongs_to_one_token(serve, store):
    keys = {name: name * 32 for name in "ab"}
    tokens = Tokens({digest(key): frozenset({"operate"}) for key in keys.values()})
    one, other = (
        serve(tokens=tokens, headers={"Authorization": f"Bearer {key}"}) for key in keys.values()
    )
    mine = await one.post("/api/jobs", json=JOB, headers=KEY)
    theirs = await other.post("/api/jobs", json=JOB, headers=KEY)
    assert "idempotency-replayed" not in theirs.headers
    assert (theirs.json()["created"], theirs.json()["id"] != mine.json()["id"]) == (True, True)
    assert await count(store) == 2
    await refused(one.post("/api/jobs", json={"task": "b"}, headers=KEY), 422, "another request")
    again = await other.post("/api/jobs", json=JOB, headers=KEY)
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_key_is_forgotten_after_a_day(client, store, clock):
    await good(client.post("/api/jobs", json=JOB, headers=KEY))
    clock.advance(KEEP)
    await good(client.post("/api/jobs", json={"task": "other"}, headers=KEY))
    assert await count(store) == 2


async def test_the_jobs_of_a_repeated_request_are_the_same_as_long_as_they_are_stored(
    client, store, clock
):
    first = await good(client.post("/api/jobs", json=JOB, headers=KEY))
    clock.advance(KEEP)
    again = await good(client.post("/api/jobs", json=JOB, headers=KEY))
    assert again == first | {"created": False}
    await store.cancel([first["id"]], "withdrawn")
    await store.purge([first["id"]])
    clock.advance(KEEP)
    assert (await good(client.post("/api/jobs", json=JOB, headers=KEY)))["created"]


async def test_while_the_first_is_under_way_the_second_is_refused(client, serve, store):
    begun, go_on = asyncio.Event(), asyncio.Event()
    enqueue = store.enqueue

    async def slowly(jobs):
        begun.set()
        await go_on.wait()
        return await enqueue(jobs)

    store.enqueue = slowly
    first = asyncio.ensure_future(client.post("/api/jobs", json=JOB, headers=KEY))
    await begun.wait()
    for each in (client, serve()):
        answer = await each.post("/api/jobs", json=JOB, headers=KEY)
        assert answer.status_code == 409
        assert answer.headers["retry-after"] == "1"
    go_on.set()
    assert (await first).status_code == 200
    assert await count(store) == 1


async def test_of_two_that_come_at_one_moment_at_most_one_happens(client, serve, store):
    """Both have looked and seen nothing before either leaves its note."""
    looked = asyncio.Barrier(2)
    notes = store.notes
    looks = 0

    async def together(prefix):
        nonlocal looks
        looks += 1
        found = await notes(prefix)
        if looks <= 2:
            await looked.wait()
        return found

    store.notes = together
    asked = [each.post("/api/jobs", json=JOB, headers=KEY) for each in (client, serve())]
    answers = await asyncio.gather(*asked)
    assert sum(answer.status_code == 200 for answer in answers) <= 1
    assert await count(store) <= 1
    store.notes = notes
    await good(client.post("/api/jobs", json=JOB, headers=KEY))
    assert await count(store) == 1


async def test_a_refused_write_leaves_its_key_free(client, store):
    asked = {"selection": {"status": "failed"}, "expected": 1}
    await refused(client.post("/api/jobs/purge", json=asked, headers=KEY), 409)
    await good(client.post("/api/jobs", json=JOB, headers=KEY))


async def test_a_server_that_died_half_way_holds_up_its_key_for_two_minutes(client, store, clock):
    enqueue, note = store.enqueue, store.note

    async def die(jobs):
        async def gone(key, value, keep):
            raise StoreUnavailableError("nobody is there")

        store.note = gone
        raise asyncio.CancelledError

    store.enqueue = die
    asked = asyncio.ensure_future(client.post("/api/jobs", json=JOB, headers=KEY))
    await asyncio.wait([asked])
    store.enqueue, store.note = enqueue, note
    await refused(client.post("/api/jobs", json=JOB, headers=KEY), 409, "under way")
    clock.advance(KEEP_UNANSWERED)
    await good(client.post("/api/jobs", json=JOB, headers=KEY))


async def test_a_key_whose_outcome_is_unknown_still_belongs_to_its_request(client, store):
    enqueue = store.enqueue

    async def away(jobs):
        raise StoreUnavailableError("nobody is there")

    store.enqueue = away
    await refused(client.post("/api/jobs", json=JOB, headers=KEY), 503)
    store.enqueue = enqueue
    await refused(client.post("/api/jobs", json={"task": "other"}, headers=KEY), 422, "another")
    await good(client.post("/api/jobs", json=JOB, headers=KEY))
    assert await count(store) == 1


async def test_a_job_keeps_the_id_that_its_request_gives_it(client, store):
    jobs = [{"task": "send", "id": "mine"}, {"task": "send"}, {"task": "send", "id": None}]
    first = await good(client.post("/api/jobs", json=jobs, headers=KEY))
    assert first[0] == {"id": "mine", "created": True}
    assert len({each["id"] for each in first}) == 3


async def test_a_key_must_be_short_and_printable(client):
    for key in ("", "x" * 256, "a\tb"):
        answer = client.post("/api/jobs", json=JOB, headers={"Idempotency-Key": key})
        await refused(answer, 422, "1 to 255 characters of visible ASCII")
