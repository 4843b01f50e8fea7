"""The bridge: every message is a job here or still there, once, wherever it was killed."""

import asyncio
import json
import os
import pickle
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from mulligan import Mulligan, Retry
from mulligan.contrib import celery
from mulligan.contrib.bridge import Bridged, run_bridge
from mulligan.contrib.bridge import run as running
from mulligan.contrib.bridge.celery_queue import CeleryQueue
from mulligan.contrib.bridge.jobs import Tasks
from mulligan.contrib.bridge.message import Message
from mulligan.contrib.bridge.redis_queue import RedisQueue, connected
from mulligan.contrib.bridge.rq_queue import RqQueue
from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.core.lane import Priority
from mulligan.core.page import Selection
from tests.bridge.messages import celery_message, rq_job
from tests.databases import url_variable
from tests.store_kit import remove_keys, require

pytestmark = pytest.mark.usefixtures("other")


@pytest.fixture
def other():
    """A Redis of another queue's, and what its keys begin with here."""
    require("redis")
    # A database of its own, since each test looks at all that is left in it.
    server = urlsplit(os.environ[url_variable("redis")])
    url, prefix = server._replace(path="/11").geturl(), f"test:{secrets.token_hex(6)}:"
    with Redis.from_url(url) as redis:
        yield redis, url, prefix
    remove_keys(url, prefix.removesuffix(":"))


def make_app(url: str = "memory://") -> Mulligan:
    app = Mulligan(url)

    @app.task(name="add", queue="sums", retry=Retry(3))
    def add(x: int, y: int = 1) -> int:
        return x + y

    @app.task(queue="mail")
    def send(to: str) -> str:
        return to

    return app


async def jobs_of(app: Mulligan):
    store = app.make_store()
    await store.open()
    try:
        return {job.id: job for job in (await store.page(Selection(), 1000)).jobs}
    finally:
        await store.close()


def rest(redis: Redis, prefix: str) -> list[str]:
    """The keys that are left, but for Celery's bindings."""
    return sorted(key.decode().removeprefix(prefix) for key in redis.scan_iter(f"{prefix}*"))


async def test_messages_become_jobs_with_eta_and_retries_on_every_store(other, store_url):
    redis, url, prefix = other
    later = datetime.now(UTC) + timedelta(hours=1)
    for message in (
        celery_message("tasks.add", 1, id="first"),
        celery_message("tasks.add", 2, kwargs={"y": 3}, id="second", eta=later.isoformat()),
        celery_message("tasks.add", 3, id="third", retries=2),
        celery_message("tasks.add", 4, id="fourth", expires=later.isoformat()),
    ):
        redis.lpush(f"{prefix}celery", message)
    app = make_app(store_url)
    done = await celery.abridge(app, url, tasks={"tasks.add": "add"}, key_prefix=prefix)
    assert (done.taken, done.left, done.resumed) == (4, 0, 0)
    found = await jobs_of(app)
    assert set(found) == {"first", "second", "third", "fourth"}
    assert {job.queue for job in found.values()} == {"sums"}
    assert abs(found["second"].due - later.timestamp()) < 0.01
    assert found["third"].retry_count == 2
    assert found["third"].lane_priority == Priority.RETRY
    assert abs(found["fourth"].expires_at - later.timestamp()) < 0.01
    assert rest(redis, prefix) == []


async def test_jobs_that_were_taken_over_run(other):
    redis, url, prefix = other
    app = make_app()
    with app.testing() as t:
        redis.lpush(f"{prefix}celery", celery_message("add", 1, id="a", retries=1))
        async with connected(
            url, "Celery", lambda r: [CeleryQueue(r, "celery", prefix=prefix)]
        ) as queues:
            bridge = running.Bridge(t.store, Tasks(app, {}), running.no_progress, "Celery")
            await bridge.go_through(queues, dry_run=False)
        await t.adrain()
        assert app.job("a").result() == 2


async def test_what_cannot_be_taken_stays_in_its_place_and_order(other):
    redis, url, prefix = other
    messages = [
        celery_message("tasks.gone", 1, id="unknown"),
        celery_message("add", 1, id="good"),
        celery_message("add", 1, id="pickled", content_type="application/x-python-serialize"),
        celery_message("add", "one", "two", "three", id="misfit"),
        "nonsense",
        celery_message("add", 2, id="better"),
    ]
    for message in messages:
        redis.lpush(f"{prefix}celery", message)
    redis.lpush(f"{prefix}celery", b"\xff")
    done = await celery.abridge(make_app(), url, key_prefix=prefix)
    assert (done.taken, done.left) == (2, 5)
    assert [each.id for each in done.messages] == ["pickled", "", "", "unknown", "misfit"]
    assert sum(done.reasons.values()) == 5
    stayed = [each.decode(errors="replace") for each in redis.lrange(f"{prefix}celery", 0, -1)]
    assert stayed[::-1] == [messages[0], *messages[2:5], "\ufffd"]


async def test_a_message_that_no_store_could_keep_stays_and_the_others_are_taken(other, store_url):
    redis, url, prefix = other
    app = make_app(store_url)
    for headers in ({"id": "a"}, {"id": "p", "retries": 10**30}, {"id": "x" * 200}, {"id": "b"}):
        redis.lpush(f"{prefix}celery", celery_message("add", 1, **headers))
    redis.lpush(f"{prefix}celery", celery_message("add", "\ud800", id="s"))
    done = await celery.abridge(app, url, key_prefix=prefix)
    assert (done.taken, done.left, done.resumed) == (2, 3, 0)
    assert set(await jobs_of(app)) == {"a", "b"}
    assert rest(redis, prefix) == ["celery"]
    await asyncio.to_thread(app.close)


@pytest.mark.parametrize("system", ["celery", "rq"])
async def test_a_batch_that_the_store_refuses_is_taken_one_by_one(other, monkeypatch, system):
    redis, url, prefix = other
    app = make_app()
    assert app._memory is not None
    adopt = app._memory.adopt

    async def refuse(jobs):
        if any(each.job.id == "bad" for each in jobs):
            raise OverflowError("int too big to convert")
        return await adopt(jobs)

    monkeypatch.setattr(app._memory, "adopt", refuse)
    for name in ("a", "bad", "b"):
        if system == "celery":
            redis.lpush(f"{prefix}celery", celery_message("add", 1, id=name))
        else:
            rq_job(redis, prefix, name, ["add", None, [1], {}])
            redis.rpush(f"{prefix}rq:queue:default", name)
    made = CeleryQueue if system == "celery" else RqQueue
    name = "celery" if system == "celery" else "default"

    async def take() -> Bridged:
        return await run_bridge(app, url, system, lambda redis: [made(redis, name, prefix=prefix)])

    done = await take()
    assert (done.taken, done.left) == (2, 1)
    assert [each.id for each in done.messages] == ["bad"]
    assert "the store refuses it: int too big" in done.messages[0].reason
    assert set(await jobs_of(app)) == {"a", "b"}
    again = await take()
    assert (again.taken, again.left, again.resumed) == (0, 1, 0)


async def test_keys_of_rq_that_are_of_another_type_do_not_stop_it(other):
    redis, url, prefix = other
    rq_job(redis, prefix, "good", ["add", None, [1], {}])
    redis.set(f"{prefix}rq:job:odd", "text")
    for name in ("odd", b"\xff", "good"):
        redis.rpush(f"{prefix}rq:queue:default", name)
    done = await run_bridge(
        make_app(), url, "rq", lambda redis: [RqQueue(redis, "default", prefix=prefix)]
    )
    assert (done.taken, done.left) == (1, 2)


async def test_a_task_is_found_by_module_and_function_as_celery_names_it(other):
    redis, url, prefix = other
    app = make_app()
    function = app.tasks["send"].__wrapped__
    redis.lpush(
        f"{prefix}celery",
        celery_message(f"{function.__module__}.{function.__qualname__}", "ada", id="m"),
    )
    await celery.abridge(app, url, key_prefix=prefix)
    assert (await jobs_of(app))["m"].task == "send"


async def test_a_dry_run_takes_nothing(other):
    redis, url, prefix = other
    for number in range(250):
        redis.lpush(f"{prefix}celery", celery_message("add" if number % 2 else "gone", number))
    app = make_app()
    done = await celery.abridge(app, url, key_prefix=prefix, dry_run=True)
    assert (done.taken, done.left) == (125, 125)
    assert redis.llen(f"{prefix}celery") == 250
    assert await jobs_of(app) == {}


async def test_priorities_are_other_lists_and_are_read_too(other):
    redis, url, prefix = other
    redis.lpush(f"{prefix}celery\x06\x166", celery_message("add", 1, id="lower"))
    redis.lpush(f"{prefix}celery", celery_message("add", 1, id="higher"))
    app = make_app()
    done = await celery.abridge(app, url, key_prefix=prefix)
    assert done.taken == 2
    found = await jobs_of(app)
    assert found["higher"].sequence < found["lower"].sequence


async def test_what_a_worker_holds_is_taken_after_the_visibility_timeout_only(other):
    redis, url, prefix = other
    now = time.time()
    for tag, age, route in (("old", 4000, "celery"), ("new", 10, "celery"), ("x", 4000, "mail")):
        held = [json.loads(celery_message("add", 1, id=tag)), "", route]
        redis.hset(f"{prefix}unacked", tag, json.dumps(held))
        redis.zadd(f"{prefix}unacked_index", {tag: now - age})
    app = make_app()
    done = await celery.abridge(app, url, key_prefix=prefix)
    assert (done.taken, done.held) == (1, 2)
    assert set(await jobs_of(app)) == {"old"}
    assert set(redis.hkeys(f"{prefix}unacked")) == {b"new", b"x"}
    done = await celery.abridge(app, url, key_prefix=prefix, visibility_timeout=0)
    assert (done.taken, done.held) == (1, 1)


async def test_what_a_worker_holds_is_known_by_the_bindings_of_its_exchange(other):
    redis, url, prefix = other
    for tag, route in (("ours", "key"), ("theirs", "other")):
        held = [json.loads(celery_message("add", 1, id=tag)), "shop", route]
        redis.hset(f"{prefix}unacked", tag, json.dumps(held))
        redis.zadd(f"{prefix}unacked_index", {tag: 1})
    redis.sadd(f"{prefix}_kombu.binding.shop", "key\x06\x16\x06\x16celery")
    app = make_app()
    await celery.abridge(app, url, key_prefix=prefix)
    assert set(await jobs_of(app)) == {"ours"}


async def test_an_id_that_comes_again_is_another_job(other):
    redis, url, prefix = other
    app = make_app()
    for _ in range(2):
        for number in range(2):
            redis.lpush(f"{prefix}celery", celery_message("add", number, id="report"))
        await celery.abridge(app, url, key_prefix=prefix)
    found = await jobs_of(app)
    assert len(found) == 4
    assert "report" in found
    assert all(job.startswith("report") for job in found)


async def test_a_message_whose_id_is_taken_in_the_last_moment_stays(other, monkeypatch):
    redis, url, prefix = other
    app = make_app()
    redis.lpush(f"{prefix}celery", celery_message("add", 1, id="same"))
    await celery.abridge(app, url, key_prefix=prefix)

    async def unaware(self, messages):
        return [message.id for message in messages]

    for number in (2, 3):
        redis.lpush(f"{prefix}celery", celery_message("add", number, id=f"same{number % 2 or ''}"))
    with monkeypatch.context() as patched:
        patched.setattr(running.Bridge, "_ids", unaware)
        assert (await celery.abridge(app, url, key_prefix=prefix)).taken == 1
    assert redis.llen(f"{prefix}celery") == 1
    assert (await celery.abridge(app, url, key_prefix=prefix)).taken == 1
    assert len(await jobs_of(app)) == 3
    assert rest(redis, prefix) == []


WRITES = ("take", "adopt", "end", "purge", "forget_batch")


class KilledError(BaseException):
    """The process is gone: nothing after this line runs."""


class Mortal:
    """Passes calls on, and dies before one that would change something."""

    def __init__(self, inner: Any, fate: Any) -> None:
        self._inner = inner
        self._fate = fate

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name not in WRITES:
            return found

        async def call(*args, **kwargs):
            self._fate()
            return await found(*args, **kwargs)

        return call


def dies_at(step: int):
    """What dies at this step."""
    steps = iter(range(1_000_000))

    def fate() -> None:
        if next(steps) == step:
            raise KilledError

    return fate


def rq_calls(redis: Redis, prefix: str) -> None:
    """Five jobs that wait, of which one is pickled, and one that is scheduled."""
    for number in range(5):
        rq_job(redis, prefix, f"j{number}", ["add", None, [number], {}])
        redis.rpush(f"{prefix}rq:queue:default", f"j{number}")
    rq_job(redis, prefix, "j3", pickle.dumps(("add", None, (3,), {})))
    rq_job(redis, prefix, "later", ["add", None, [9], {}])
    redis.zadd(f"{prefix}rq:scheduled:default", {"later": 4_000_000_000})


def celery_calls(redis: Redis, prefix: str) -> None:
    """Five messages, of which one is pickled, and one that a dead worker holds."""
    for number in range(5):
        kind = "application/x-python-serialize" if number == 3 else "application/json"
        message = celery_message("add", number, id=f"j{number}", content_type=kind)
        redis.lpush(f"{prefix}celery", message)
    held = [json.loads(celery_message("add", 9, id="later")), "", "celery"]
    redis.hset(f"{prefix}unacked", "tag", json.dumps(held))
    redis.zadd(f"{prefix}unacked_index", {"tag": 1})


QUEUES = {
    "celery": (celery_calls, lambda redis, prefix: CeleryQueue(redis, "celery", prefix=prefix)),
    "rq": (rq_calls, lambda redis, prefix: RqQueue(redis, "default", prefix=prefix)),
}


@pytest.mark.prove
@pytest.mark.parametrize(
    "run_meanwhile",
    [pytest.param(False, id="waiting"), pytest.param(True, id="run")],
)
@pytest.mark.parametrize("system", QUEUES)
async def test_killed_at_any_step_nothing_is_lost_and_nothing_doubled(
    other, system, run_meanwhile, monkeypatch
):
    """At each step in turn; jobs may have been run and forgotten before it is started again."""
    redis, url, prefix = other
    write, queue_of = QUEUES[system]
    monkeypatch.setattr(running, "BATCH", 2)
    wanted = {"j0", "j1", "j2", "j4", "later"}
    for step in range(1000):
        remove_keys(url, prefix.removesuffix(":"))
        write(redis, prefix)
        app = make_app()
        store, client = app.make_store(), AsyncRedis.from_url(url)
        fate, ran = dies_at(step), set[str]()
        mortal = running.Bridge(Mortal(store, fate), Tasks(app, {}), running.no_progress, system)
        killed = False
        try:
            queue = queue_of(client, prefix)
            await mortal.go_through([cast("RedisQueue", Mortal(queue, fate))], dry_run=False)
        except KilledError:
            killed = True
        if run_meanwhile:
            waiting = (await store.page(Selection(status="pending"), 100)).jobs
            ran = {job.id for job in waiting}
            await store.cancel(sorted(ran), "stands for: run")
            await store.purge(sorted(ran))
        again = running.Bridge(store, Tasks(app, {}), running.no_progress, system)
        await again.go_through([queue_of(client, prefix)], dry_run=False)
        found = [job.id for job in (await store.page(Selection(), 100)).jobs]
        await client.aclose()
        assert sorted([*found, *ran]) == sorted(wanted), f"killed at step {step}"
        kept = ["celery"] if system == "celery" else ["rq:job:j3", "rq:queue:default"]
        assert rest(redis, prefix) == kept, f"killed at step {step}"
        if not killed:
            assert step == 4 * len(WRITES)
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("at", WRITES)
@pytest.mark.parametrize("system", QUEUES)
async def test_a_second_bridge_at_any_step_of_the_first_loses_and_doubles_nothing(
    other, system, at
):
    await meet_a_second(other, make_app(), system, at)


@pytest.mark.parametrize("system", QUEUES)
async def test_a_second_bridge_stores_the_jobs_of_the_first_once_on_every_store(
    other, store_url, system
):
    await meet_a_second(other, make_app(store_url), system, "adopt")


async def meet_a_second(other: Any, app: Mulligan, system: str, at: str) -> None:
    """Before one write of the first, the second takes its batch for a killed one's and ends it."""
    redis, url, prefix = other
    write, queue_of = QUEUES[system]
    write(redis, prefix)
    store, client = app.make_store(), AsyncRedis.from_url(url)
    await store.open()
    met: list[str] = []

    class First:
        """Passes calls on; before the one write, once, the second bridge goes through."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name):
            found = getattr(self._inner, name)

            async def call(*args, **kwargs):
                if not met:
                    met.append(name)
                    second = running.Bridge(store, Tasks(app, {}), running.no_progress, system)
                    await second.go_through([queue_of(client, prefix)], dry_run=False)
                return await found(*args, **kwargs)

            return call if name == at else found

    first = running.Bridge(cast("Any", First(store)), Tasks(app, {}), running.no_progress, system)
    queue = cast("RedisQueue", First(queue_of(client, prefix)))
    await first.go_through([queue], dry_run=False)
    again = running.Bridge(store, Tasks(app, {}), running.no_progress, system)
    await again.go_through([queue_of(client, prefix)], dry_run=False)
    found = [job.id for job in (await store.page(Selection(), 100)).jobs]
    await client.aclose()
    await store.close()
    assert met == [at]
    assert sorted(found) == ["j0", "j1", "j2", "j4", "later"]


async def test_killed_after_an_id_was_taken_meanwhile_the_message_is_not_lost(other, monkeypatch):
    """Both when the jobs had been stored and when they had not."""
    redis, url, prefix = other

    async def unaware(self, messages):
        return [message.id for message in messages]

    for step in (1, 2):  # before the jobs are stored, and after it
        app = make_app()
        store, client = app.make_store(), AsyncRedis.from_url(url)
        redis.lpush(f"{prefix}celery", celery_message("add", 1, id="same"))
        queue = CeleryQueue(client, "celery", prefix=prefix)
        once = running.Bridge(store, Tasks(app, {}), running.no_progress, "Celery")
        if step == 2:
            await once.go_through([queue], dry_run=False)
            redis.lpush(f"{prefix}celery", celery_message("add", 2, id="same"))
        redis.lpush(f"{prefix}celery", celery_message("add", 3, id="other"))
        mortal = Mortal(queue, dies := dies_at(step))
        with monkeypatch.context() as patched:
            patched.setattr(running.Bridge, "_ids", unaware)
            bridge = running.Bridge(
                cast("Any", Mortal(store, dies)), Tasks(app, {}), running.no_progress, "Celery"
            )
            with pytest.raises(KilledError):
                await bridge.go_through([cast("RedisQueue", mortal)], dry_run=False)
        if step == 1:
            meanwhile = app.tasks["add"].using(id="same").call(2).job
            await store.enqueue([meanwhile])
        await once.go_through([queue], dry_run=False)
        await client.aclose()
        found = [job.id for job in (await store.page(Selection(), 100)).jobs]
        assert sorted(each[:5] for each in found) == ["other", "same", "same-"]
        assert rest(redis, prefix) == []


async def test_a_batch_whose_task_is_gone_goes_back_to_the_head_of_its_queue(other):
    redis, url, prefix = other
    for system, (write, queue_of) in QUEUES.items():
        write(redis, prefix)
        client = AsyncRedis.from_url(url)
        queue = queue_of(client, prefix)
        for queue_key in await queue.queue_keys():
            for message in await queue.page(queue_key, 0, 10):
                if isinstance(message, Message) and message.id in ("j0", "later"):
                    named = [(message.id, 1.0, message)]
                    await queue.take("begun-" + message.id, queue_key, named)
        app = Mulligan("memory://")
        bridge = running.Bridge(app.make_store(), Tasks(app, {}), running.no_progress, system)
        done = await bridge.go_through([queue], dry_run=False)
        assert done.taken == 0
        assert await queue.batches() == []
        await client.aclose()
    raws = redis.lrange(f"{prefix}celery", 0, -1)
    assert {json.loads(raw)["headers"]["id"] for raw in raws[-2:]} == {"j0", "later"}
    assert redis.lindex(f"{prefix}rq:queue:default", 0) == b"j0"
    assert redis.zscore(f"{prefix}rq:scheduled:default", "later") == 4_000_000_000


async def test_jobs_of_rq_bring_their_retries_and_what_waits_for_others_is_left(other):
    redis, url, prefix = other
    rq_calls(redis, prefix)
    rq_job(redis, prefix, "j0", ["add", None, [0], {}], retries_left="2", retry_intervals="[7]")
    redis.zadd(f"{prefix}rq:deferred:default", {"after": 1})
    app = make_app()
    done = await run_bridge(
        app, url, "RQ", lambda client: [RqQueue(client, "default", prefix=prefix)]
    )
    assert (done.taken, done.left) == (5, 2)
    assert {each.id for each in done.messages} == {"j3", "after"}
    found = await jobs_of(app)
    assert found["later"].due == 4_000_000_000
    assert b'"max_retries":2' in found["j0"].body
    assert b'"seconds":[7' in found["j0"].body


async def test_it_follows_a_queue_until_it_is_told_to_end(other):
    redis, url, prefix = other
    app, end, seen = make_app(), asyncio.Event(), asyncio.Event()

    def progress(taken: int, total: int) -> None:
        assert total >= taken
        if taken == 2:
            seen.set()

    redis.lpush(f"{prefix}celery", celery_message("add", 1))
    following = asyncio.create_task(
        celery.abridge(app, url, key_prefix=prefix, follow=end, progress=progress)
    )
    redis.lpush(f"{prefix}celery", celery_message("add", 2))
    await seen.wait()
    end.set()
    assert (await following).taken == 2


async def test_a_url_that_is_no_redis_and_one_that_does_not_answer_are_said():
    with pytest.raises(InvalidError, match="is no URL of Redis, where Celery"):
        await celery.abridge(make_app(), "amqp://localhost")
    with pytest.raises(StoreUnavailableError, match="start the bridge again"):
        await celery.abridge(make_app(), "redis://127.0.0.1:1/0")
    with pytest.raises(InvalidError, match="'nothing' is not one of add, send"):
        await celery.abridge(make_app(), "redis://127.0.0.1:1/0", tasks={"a": "nothing"})
