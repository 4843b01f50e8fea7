"""Documents of other programs."""

import asyncio
import json
import re
import time
from pathlib import Path

import pytest

from mulligan.core.job import Call, Policy, decode_call, decode_policy
from mulligan.core.lane import Lane
from mulligan.core.retry import PRESETS, Retry
from tests.contract.builders import (
    ANN,
    ANYONE,
    claim,
    names,
    start,
)
from tests.contract.waits import woken
from tests.stores.redis.kit import key, keys_of, opened


async def test_a_document_of_another_program_becomes_a_job_and_wakes_a_worker(store, client):
    await claim(store, Lane("mail", "EU", 2))
    sleeper = asyncio.create_task(woken(store, ANN))
    document = {
        "task": "send",
        "args": [1],
        "kwargs": {"to": "ann"},
        "queue": "mail",
        "region": "EU",
        "priority": "urgent",
        "id": "m1",
        "unique_key": "u",
        "retry": {"max_retries": 7},
    }
    await client.rpush(key(store, "inbox"), json.dumps(document))
    assert await sleeper
    first = await start(store, Lane("mail", "EU", 2))
    assert (first.id, first.task, first.queue, first.region) == ("m1", "send", "mail", "EU")
    assert decode_call(first.body) == Call([1], {"to": "ann"})
    assert decode_policy(first.body) == Policy(Retry(7))
    stored = await store.get("m1")
    assert stored is not None
    assert stored.unique_key == "u"


async def test_a_document_needs_no_more_than_a_task(store, client):
    await client.rpush(key(store, "inbox"), '{"task": "ask"}', '{"task": "ask", "retry": "quick"}')
    await client.rpush(key(store, "inbox"), '{"task": "ask", "delay": 60}')
    await store.promote(100)
    first, second = (await claim(store, demand=9)).claims
    assert first.lane == ANYONE
    assert decode_policy(first.body).retry == Retry()
    assert decode_policy(second.body).retry == PRESETS["quick"]
    assert (await store.stats()).delayed["default"].total == 1


REFUSED = {
    "no JSON": ("{", "the document is no job"),
    "no task": ('{"args": []}', "missing required field `task`"),
    "a word too many": ('{"task": "a", "color": 1}', "unknown field `color`"),
    "a misspelt word": ('{"task": "a", "quueue": "q"}', "`quueue`; did you mean queue?"),
    "a policy's word": (
        '{"task": "a", "retry": {"MaxRetries": 1}}',
        "unknown field `MaxRetries` - at `$.retry`; did you mean max_retries?",
    ),
    "a backoff's word": (
        '{"task": "a", "retry": {"backoff": {"type": "exponential", "bas": 1}}}',
        "unknown field `bas` - at `$.retry.backoff`; did you mean base?",
    ),
    "a wrong type": ('{"task": "a", "args": {}}', "Expected `array | null`"),
    "an empty name": ('{"task": ""}', "has 0 characters"),
    "a control character": ('{"task": "a\\tb"}', "control character"),
    "a region that is a pattern": ('{"task": "a", "region": "*-US"}', "must not begin with"),
    "a delay before now": ('{"task": "a", "delay": -1}', "must be between"),
    "an unknown priority": ('{"task": "a", "priority": "high"}', "Invalid enum value"),
    "an unknown preset": ('{"task": "a", "retry": "never"}', "is not one of default, quick"),
    "a policy of nonsense": ('{"task": "a", "retry": {"max_retries": -1}}', "must be 0 or more"),
    "too much": (json.dumps({"task": "a", "args": ["x" * 300_000]}), "at most 262144 are taken"),
    "too deep": (f'{{"task": "a", "args": {"[" * 202 + "]" * 202}}}', "more than 200 levels deep"),
    "far too deep": ("[" * 100_000, "more than 200 levels deep"),
    "no text": (b"\xff\xfe", "the document is no job"),
}


@pytest.mark.parametrize("absent", [None, ""])
async def test_null_and_empty_text_are_absent(store, client, absent):
    texts = ("queue", "region", "priority", "id", "unique_key", "retry")
    document: dict[str, object] = dict.fromkeys(("args", "kwargs", "delay", "keep"))
    document |= dict.fromkeys(texts, absent)
    document["task"] = "ask"
    await client.rpush(key(store, "inbox"), json.dumps(document))
    await store.promote(100)
    claimed = await start(store, ANYONE)
    stored = await store.get(claimed.id)
    assert stored is not None
    assert stored.id
    assert (stored.unique_key, stored.keep) == (None, None)
    assert json.loads(claimed.body) == {"task": "ask", "args": [], "kwargs": {}, "given": []}


@pytest.mark.parametrize(("entry", "reason"), REFUSED.values(), ids=REFUSED)
async def test_what_is_no_job_is_refused_with_the_reason_and_holds_up_nothing(
    store, client, entry, reason
):
    await client.rpush(key(store, "inbox"), entry, '{"task": "ask", "id": "good"}')
    await store.promote(100)
    assert names(await claim(store, demand=9)) == ["good"]
    [noted] = await client.lrange(key(store, "inbox:refused"), 0, -1)
    assert reason in json.loads(noted)["reason"]
    assert "inbox:taken" not in await keys_of(client, store)


async def test_what_a_process_took_and_died_with_is_accepted_by_the_next(store, client):
    await client.rpush(key(store, "inbox:taken"), '{"task": "ask", "id": "a"}')
    await store.promote(100)
    assert names(await claim(store)) == ["a"]


async def test_a_document_that_two_processes_look_at_becomes_one_job(url, client):
    async with opened(url) as store, opened(url) as other:
        documents = ['{"task": "ask"}'] * 50
        await client.rpush(key(store, "inbox"), *documents)
        await asyncio.gather(store.promote(100), other.promote(100))
        assert len((await claim(store, demand=100)).claims) == 50


async def test_the_script_of_the_docs_moves_lists_of_other_queues(store, client):
    page = (Path(__file__).parents[3] / "docs/howto/your-words.md").read_text()
    [script] = re.findall(r"^```lua\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    theirs = key(store, "theirs")
    words = (key(store, "inbox"), "ask", "default")
    assert await client.eval(script, 2, theirs, *words) == 0
    now = time.time()
    await client.zadd(theirs, {"late": now - 60, "later": now + 3600})
    assert await client.eval(script, 2, theirs, *words) == 2
    assert not await client.exists(theirs)
    await client.rpush(theirs, *map(str, range(1001)))
    assert [await client.eval(script, 2, theirs, *words) for _ in range(3)] == [1000, 1, 0]
    while await client.llen(key(store, "inbox")):
        await store.promote(100)
    taken = [each for _ in range(2) for each in (await claim(store, demand=1000)).claims]
    assert [decode_call(each.body).args for each in taken] == [
        [text] for text in ("late", *map(str, range(1001)))
    ]
    [(_, due)] = await client.zrange(key(store, "delayed:default"), 0, -1, withscores=True)
    assert due > now + 3000
