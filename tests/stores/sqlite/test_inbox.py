"""Jobs of producers in other languages."""

import asyncio
import re
import time
from importlib.resources import files

import pytest

from mulligan.core.checks import DEPTH_LIMIT, LONGEST, NAME_LIMIT
from mulligan.core.job import decode_call, decode_policy, first_token
from mulligan.core.lane import Lane, Priority
from mulligan.core.page import Selection
from mulligan.core.retry import PRESETS, Retry
from mulligan.core.settings import Settings
from tests.contract.builders import ANN, BOB, claim, job, names, source, start
from tests.store_kit import handle
from tests.stores.sqlite.kit import foreign, rows


async def test_an_insert_into_the_inbox_is_a_job(store, path, clock):
    clock.now = 4_000_000_000.0
    foreign(path, "INSERT INTO inbox (task) VALUES ('ask')")
    claimed = await start(store)
    assert (claimed.task, claimed.queue, claimed.region, claimed.priority) == (
        "ask",
        "default",
        "*",
        0,
    )
    assert decode_call(claimed.body).args == []
    assert decode_policy(claimed.body).retry == Retry()


async def test_an_insert_into_the_inbox_may_say_everything(store, path):
    foreign(
        path,
        "INSERT INTO inbox (task, args, kwargs, queue, region, delay, priority, id, unique_key,"
        " retry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "ask",
        '["why?"]',
        '{"loud": true}',
        "questions",
        "EU",
        1.5,
        "urgent",
        "q-1",
        "why",
        '{"max_retries":7,"backoff":{"type":"delays","seconds":[1,2]},"scope":"region"}',
    )
    found = await store.get("q-1")
    assert found is not None
    assert found.token == first_token(found.sequence)
    assert found.lane == Lane("questions", "EU", Priority.URGENT)
    assert found.unique_key == "why"
    assert found.due == pytest.approx(found.created_at + 1.5)
    assert (await store.stats()).delayed["questions"].total == 1
    call = decode_call(found.body)
    assert (call.args, call.kwargs) == (["why?"], {"loud": True})
    retry = decode_policy(found.body).retry
    assert (retry.max_retries, retry.scope, retry.backoff.delay(2, 0)) == (7, "region", 2.0)


async def test_a_foreign_job_that_is_there_already_changes_nothing(store, path):
    await store.enqueue([job("a", unique_key="k")])
    foreign(path, "INSERT INTO inbox (task, id) VALUES ('other', 'a')")
    foreign(path, "INSERT INTO inbox (task, unique_key) VALUES ('other', 'k')")
    [stored] = (await store.page(Selection(), 10)).jobs
    assert stored.task == "ask"
    assert await rows(store, "SELECT * FROM refused") == []


@pytest.mark.parametrize(
    ("columns", "values", "reason"),
    [
        ("args", ["[]"], "task is missing"),
        ("task, args", ["ask", "[1,"], "args is not JSON"),
        ("task, args", ["ask", "{}"], "args is not a JSON array"),
        ("task, kwargs", ["ask", "nope"], "kwargs is not JSON"),
        ("task, kwargs", ["ask", "[]"], "kwargs is not a JSON object"),
        ("task, retry", ["ask", "{"], "retry is neither JSON nor the name of a preset"),
        ("task, retry", ["ask", '"often"'], 'retry "often" is not the name of a preset'),
        ("task, retry", ["ask", "3"], "retry is not a JSON object"),
        ("task, retry", ["ask", '{"max_retries":-1}'], "retry.max_retries -1 is not valid"),
        (
            "task, retry",
            ["ask", '{"MaxRetries":1}'],
            "retry.MaxRetries is not a field of a policy; retry takes max_retries, backoff,",
        ),
        (
            "task, retry",
            ["ask", '{"backoff":{"type":"delays","seconds":[1],"max":1}}'],
            "retry.backoff.max is not a field of a policy; its backoff takes type, seconds",
        ),
        ("task, retry", ["ask", '{"scope":"moon"}'], "retry.scope moon is not valid"),
        ("task, retry", ["ask", '{"on":3}'], "retry.on 3 is not valid"),
        ("task, retry", ["ask", '{"never":["OSError",""]}'], "retry.never[1]  is not valid"),
        ("task, retry", ["ask", '{"backoff":{"type":"none"}}'], "retry.backoff null is not valid"),
        (
            "task, retry",
            ["ask", '{"backoff":{"type":"exponential","jitter":"wild"}}'],
            "retry.backoff.jitter wild is not valid",
        ),
        (
            "task, retry",
            ["ask", '{"backoff":{"type":"delays","seconds":[1,"two"]}}'],
            "retry.backoff.seconds[1] two is not valid",
        ),
        (
            "task, priority",
            ["ask", "soon"],
            "priority is not one of normal (0), retry (1), urgent (2)",
        ),
        ("task, priority", ["ask", 3], "priority is not one of normal (0), retry (1), urgent (2)"),
        ("task, delay", ["ask", "soon"], "delay is not a number of seconds"),
        ("task, delay", ["ask", -1], "delay is not a number of seconds"),
        ("task, region", ["ask", "*-EU"], "region must not begin with *"),
        ("task", ["x" * 129], "task is not text of 1 to 128 characters"),
        ("task, queue", ["ask", "a\nb"], "queue is not text of 1 to 128 characters"),
        ("task, id", ["ask", ""], "id is not text of 1 to 128 characters"),
        ("task, unique_key", ["ask", 7], "unique_key is not text of 1 to 128 characters"),
        ("task, args", ["ask", f'["{"é" * 131_072}"]'], "the payload has more than 262144 bytes"),
        ("task, args", ["ask", "[" * 202 + "]" * 202], "an argument is nested more than 200"),
        (
            "task, kwargs",
            ["ask", '{"k":' * 202 + "{}" + "}" * 202],
            "an argument is nested more than 200",
        ),
    ],
)
async def test_what_cannot_be_a_job_is_set_aside_with_the_reason(
    store, path, columns, values, reason
):
    marks = ", ".join("?" * len(values))
    foreign(path, f"INSERT INTO inbox ({columns}) VALUES ({marks})", *values)  # noqa: S608
    foreign(path, "INSERT INTO inbox (task, id) VALUES ('ask', 'good')")
    assert [each.id for each in (await store.page(Selection(), 10)).jobs] == ["good"]
    [(said,)] = await rows(store, "SELECT reason FROM refused")
    assert said.startswith(reason)


async def test_an_argument_may_be_200_levels_deep_and_wide_besides(store, path):
    deep = f"[{'[' * 200 + ']' * 200}, {'[],' * 1000} 1]"
    foreign(path, "INSERT INTO inbox (task, id, args) VALUES ('ask', 'good', ?)", deep)
    assert await store.get("good") is not None


async def test_a_sleeper_soon_learns_of_a_foreign_job(url, path):
    async with handle(url, time.time) as store:
        await claim(store, worker=ANN)
        await claim(store, worker=BOB)
        waiting = asyncio.create_task(store.wait(ANN, 60.0))
        foreign(path, "INSERT INTO inbox (task, id) VALUES ('ask', 'a')")
        await waiting
        assert names(await claim(store, worker=ANN)) == ["a"]
        assert await rows(store, "SELECT worker FROM sleeper WHERE woken") == []
        assert await rows(store, "SELECT worker FROM sleeper WHERE asleep") == [(BOB.id,)]


async def test_of_two_sleepers_a_foreign_job_wakes_the_one_that_may_take_it_sooner(url, path):
    lane = Lane("default", "*", Priority.NORMAL)
    async with handle(url, time.time) as store:
        await claim(store, source(lane, waited=2.0, yields=True), worker=BOB)
        await claim(store, source(lane), worker=ANN)
        foreign(path, "INSERT INTO inbox (task, region) VALUES ('ask', '*')")
        assert await rows(store, "SELECT worker FROM sleeper WHERE woken") == [(ANN.id,)]
        foreign(path, "INSERT INTO inbox (task, region) VALUES ('ask', '*')")
        assert len(await rows(store, "SELECT worker FROM sleeper WHERE woken")) == 2


def test_the_inbox_has_the_presets_and_limits_of_core():
    source = files("mulligan.stores.sqlite").joinpath("schema/inbox.sql").read_text("utf-8")
    text = re.sub(r"'\s*\|\| '", "", source)
    named = re.findall(r"IN \(\s*('default'.*?)\s*\)", text, re.DOTALL)
    assert [re.findall(r"'(\w+)'", each) for each in named] == [list(PRESETS)] * 2
    assert text.count(f"preset: {', '.join(PRESETS)}'") == 2
    size = Settings().payload_limit
    for limit in (
        f"BETWEEN 0 AND {LONGEST:.0f}",
        f"> {size}\n",
        f"more than {size} bytes",
        f"> {DEPTH_LIMIT}\n",
        f"more than {DEPTH_LIMIT} levels",
        f"BETWEEN 1 AND {NAME_LIMIT}\n",
        f"1 to {NAME_LIMIT} characters",
    ):
        assert limit in text, limit
