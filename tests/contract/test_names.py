"""Names and payloads pass through a store unchanged, whatever characters they have."""

import pytest
from msgspec.structs import replace

from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.core.job import Lease
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit as NamedLimit
from mulligan.core.limits import costs_text
from mulligan.core.page import Selection
from mulligan.core.plan import Cap, Rate
from tests.contract.builders import ANN, again, claim, dead, done, job, names, source, start

ODD = [
    "two words",
    'it\'s "quoted" `thrice`',
    "$where",
    "a.b..c",
    "a:b::c",
    "100%s %(x)s %d",
    "{tag} {{0}}",
    "ends with a backslash\\",
    "semi;colon -- comment",
    "*?[a-z]^",
    "snow ☃ 日本語 🦊",
    "e\u0301 and \u00e9",
    "#hash/slash,comma|pipe=equals&and",
    "x" * 128,
    " leading and trailing ",
    "NULL",
    "0",
]


@pytest.mark.parametrize("odd", ODD)
async def test_a_name_of_any_characters_is_that_name_everywhere(store, clock, odd):
    named = {"unique_key": odd, "fairness_key": odd, "limits": costs_text({odd: 1})}
    new = job(odd, queue=odd, task=odd, region=odd, priority=2, **named)
    await store.set_limit(odd, NamedLimit(concurrency=1), declared=True)
    assert await store.enqueue([new]) == [(odd, True)]
    assert await store.enqueue([replace(new, id="other")]) == [(odd, False)]
    worker = replace(ANN, id=f"{odd}-1", region=odd, queues=(odd,), name=odd)
    await store.configure(odd, QueueSettings(Capped(8)))
    await store.pause(odd, paused=True)
    gates = (Cap(f"cap:{odd}", 1), Rate(f"budget:{odd}", 5, 10.0, 0.5, f"fresh:{odd}"))
    lane = Lane(odd, odd, 2)
    first = await start(store, source(lane, *gates), worker=worker)
    assert (first.id, first.lane, first.task) == (odd, lane, odd)
    assert (first.worker, first.worker_region) == (f"{odd}-1", odd)
    facts = (await store.beat(worker, [first.lease, Lease(odd, 99)])).facts
    assert list(facts.queues) == [odd]
    assert facts.paused == {odd}
    assert [each.name for each in facts.regions] == [odd]
    retry = Lane(odd, f"*-{odd}", 3)
    assert await store.commit([again(first, lane=retry, message=odd)]) == ["written"]
    assert (await store.stats()).lanes[0].lane == retry
    assert (await store.stats()).workers[0].worker == worker
    assert await store.depth(retry, 5) == 1
    assert await store.ahead(odd) == 0
    assert await store.statuses([odd]) == {odd: "pending"}
    stored = await store.get(odd)
    assert (stored.unique_key, stored.fairness_key, stored.limits) == (odd, odd, new.limits)
    assert [each.name for each in await store.limits(9)] == [odd]
    assert [each.key for each in await store.keys(odd, 9)] == [odd]
    assert stored.last_failure_reason == f"ValueError: {odd}"
    second = await start(store, source(retry, *gates), worker=worker)
    await store.commit([dead(second, odd)])
    selection = Selection(queue=odd, task=odd, region=odd, text=odd, status="failed")
    assert [each.id for each in (await store.page(selection, 5)).jobs] == [odd]
    assert await store.replay([odd]) == [True]
    assert await store.cancel([odd], odd) == [True]
    assert (await store.get(odd)).cancel_reason == odd
    assert await store.purge([odd]) == [True]


async def test_names_that_look_alike_are_different(store):
    alike = ["a", "A", "a ", "á", "a\u0301", "a:b", "a.b", "a%3Ab"]
    await store.enqueue([job(f"job {each}", queue=each, unique_key="k") for each in alike])
    for each in alike:
        assert names(await claim(store, Lane(each, "default", 0), demand=5)) == [f"job {each}"]


async def test_lanes_whose_parts_would_run_together_are_different(store):
    lanes = [Lane("a:b", "c", 0), Lane("a", "b:c", 0), Lane("a:b:c", "", 0), Lane("a|b", "c", 0)]
    await store.enqueue([job(str(n), queue=q, region=s) for n, (q, s, _) in enumerate(lanes)])
    for n, lane in enumerate(lanes):
        assert names(await claim(store, lane, demand=5)) == [str(n)]


async def test_a_key_and_a_queue_whose_parts_would_run_together_are_different(store):
    first = job("1", queue="a:b", unique_key="c")
    assert await store.enqueue([first, job("2", queue="a", unique_key="b:c")]) == [
        ("1", True),
        ("2", True),
    ]


async def test_long_unicode_payloads_survive_unchanged(store):
    text = "日本語 ☃ 🦊 \\u0000 \" ' \\ é e\u0301 " * 250
    payload = ('{"task":"ask","text":"' + text + '"}').encode()
    assert len(text) > 5000
    await store.enqueue([job("a", body=payload)])
    first = await start(store)
    assert first.body == payload
    await store.commit([done(first, payload)])
    stored = await store.get("a")
    assert (stored.body, stored.result) == (payload, payload)


async def test_a_payload_at_the_limit_survives_unchanged(store):
    payload = b'{"task":"ask","text":"' + b"x" * (256 * 1024 - 24) + b'"}'
    await store.enqueue([job("a", body=payload)])
    assert (await start(store)).body == payload


async def test_error_text_of_any_characters_survives_unchanged(store):
    message = "line one\nline two\ttab \"quotes\" 'more' \\ % {} 🦊" * 40
    await store.enqueue([job("a")])
    await store.commit([again(await start(store), message=message)])
    assert (await store.history("a"))[0].message == message
    assert (await store.get("a")).last_failure_reason == f"ValueError: {message}"
