"""What another program wrote over."""

from collections.abc import Callable

import pytest

from mulligan.core.limits import Limit
from mulligan.core.page import Selection
from mulligan.stores.redis import RedisStore
from tests.contract.builders import (
    ANN,
    BOB,
    again,
    begin,
    claim,
    done,
    job,
    jobs,
    names,
)
from tests.store_kit import VirtualClock
from tests.stores.redis.kit import key, opened


def field(number: int, value: bytes) -> Callable[[bytes], bytes]:
    """Another value in this field of a text."""

    def change(text: bytes) -> bytes:
        fields = text.split(b"\t", 4)
        return b"\t".join([*fields[:number], value, *fields[number + 1 :]])

    return change


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda text: text[:10],
    "cut in the middle": lambda text: text[:30],
    "empty": lambda _: b"",
    "nonsense": lambda _: b"nonsense that is longer than a sequence",
    "a flipped bit": lambda text: bytes([text[0] ^ 0x80]) + text[1:],
    "a sequence that is no number": field(0, b"first"),
    "a time that is no number": field(1, b"soon"),
    "a lane that is none": field(2, b"nowhere"),
    "a task that is no text": field(3, b"\xff"),
}


@pytest.mark.parametrize(
    "special",
    [{}, {"unique_key": "u"}, {"limits": '{"k":1}', "fairness_key": "x"}],
    ids=["ordinary", "unique", "limited"],
)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_job_whose_text_cannot_be_read_is_a_dead_letter_and_holds_up_nothing(
    store, client, damage, special
):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue([*jobs("before"), job("damaged", **special), *jobs("after")])
    text = await store._server.command("HGET", key(store, "jobs"), "damaged")
    await store._server.command("HSET", key(store, "jobs"), "damaged", damage(text))
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["before", "after"]
    assert claimed.again_in == 0.0
    await expect_dead(store, "damaged")
    assert (await store.enqueue([job("other", **special)]))[0].created
    assert names(await claim(store, demand=9)) == ["other"]


@pytest.mark.parametrize(
    "state", [{"counts": "x"}, {"counts": "8 0"}, {"due": "x", "counts": "-"}], ids=str
)
async def test_a_job_whose_state_cannot_be_read_is_a_dead_letter(store, client, state):
    await store.enqueue([job("damaged", unique_key="u"), *jobs("after")])
    await client.hset(key(store, "state:damaged"), mapping=state)
    assert names(await claim(store, demand=9)) == ["after"]
    await expect_dead(store, "damaged")


@pytest.mark.parametrize(
    "limits", ["", "{", '{"k"', '{"k":', '{"k":1', "nonsense", "\xff\t\n", '{"\t":1}']
)
async def test_limits_that_cannot_be_read_hold_up_nothing(store, client, limits):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    damaged = job("damaged", limits='{"k":1}', delay=0.001)
    await store.enqueue([damaged, job("other", limits='{"k":1}', fairness_key="x")])
    await client.hset(key(store, "state:damaged"), "limits", limits)
    done_of: set[str] = set()
    while len(done_of) < 2:
        claimed = (await claim(store, demand=9)).claims
        done_of |= {each.id for each in claimed}
        await store.commit([done(each) for each in claimed])
    assert done_of == {"damaged", "other"}
    assert (await store.stats()).ended == {("default", "done"): 2}


async def test_a_job_that_was_damaged_while_it_ran_is_a_dead_letter_when_it_is_reclaimed(url):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        await begin(store, *jobs("damaged", "other"))
        await store._server.command("HSET", key(store, "jobs"), "damaged", "nonsense")
        clock.advance(ANN.lease)
        assert [each.id for each in await store.reclaim(9, BOB)] == ["other"]
        await expect_dead(store, "damaged")


@pytest.mark.parametrize("name", ["state", "history"])
async def test_what_another_program_keeps_under_a_jobs_key_is_set_aside(store, client, name):
    first, second = await begin(store, *jobs("damaged", "other"))
    await client.set(key(store, f"{name}:damaged"), "mine")
    assert await store.commit([again(first), again(second)]) == ["written", "written"]
    assert await client.get(key(store, f"wrong-type:{name}:damaged")) == "mine"
    for each in ("damaged", "other"):
        assert (await store.get(each)).retry_count == 1
    assert len(await store.history("other")) == 1
    assert {attempt.number for attempt in await store.history("damaged")} == {1}


async def expect_dead(store: RedisStore, name: str) -> None:
    """It is listed as failed, says why, and can be purged."""
    [listed] = (await store.page(Selection(status="failed", queue="default"), 9)).jobs
    assert listed == await store.get(name)
    assert (listed.id, listed.status) == (name, "failed")
    assert "cannot be read" in str(listed.last_failure_reason)
    assert await store.purge([name]) == [True]
    assert await store.get(name) is None
