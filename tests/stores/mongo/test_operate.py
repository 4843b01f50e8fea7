"""Replays on MongoDB."""

from tests.contract.builders import BOB, FRESH, claim, dead, jobs, start


async def test_a_dead_letter_is_replayed_though_it_was_claimed_before_we_looked(
    store, another, between
):
    await store.enqueue(jobs("a", "b"))
    await store.commit([dead(each) for each in (await claim(store, demand=2)).claims])
    documents = store._operator.documents

    async def outdated(names):
        found = await documents(names)
        await another.purge(["b"])
        return found

    async def claimed_by_another():
        assert (await start(another, worker=BOB)).id == "a"

    store._operator.documents = outdated
    between(claimed_by_another)
    assert await store.replay(["a", "b"]) == [True, False]


async def test_of_dead_letters_that_want_one_key_the_first_named_is_replayed(store):
    for name in ("a", "b"):
        await store.enqueue(jobs(name, unique_key="k"))
        await store.commit([dead(await start(store, FRESH))])
    assert await store.replay(["b", "a"]) == [True, False]
    assert (await store.get("b")).status == "pending"
