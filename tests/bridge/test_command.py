"""`mulligan bridge`: what it prints, what it refuses, and that a kill -9 costs nothing."""

import json
import os
import pickle
import secrets
from urllib.parse import urlsplit

import pytest
from redis import Redis

from mulligan.core.page import Selection
from tests.bridge.messages import celery_message, rq_job
from tests.cli.command_line import do, good, good_json, process, refused
from tests.databases import url_variable
from tests.store_kit import require

APP = "tests.bridge.app:app"
NAME = "tests.bridge.app.add"


@pytest.fixture
def redis():
    """A Redis of another queue's; each test has a queue of its own in it."""
    require("redis")
    server = urlsplit(os.environ[url_variable("redis")])
    with Redis.from_url(server._replace(path="/11").geturl()) as client:
        yield client


@pytest.fixture
def url(redis) -> str:
    server = urlsplit(os.environ[url_variable("redis")])
    return server._replace(path="/11").geturl()


@pytest.fixture
def queue(redis):
    name = f"q{secrets.token_hex(6)}"
    yield name
    redis.delete(name, f"rq:queue:{name}")


def test_it_says_what_it_took_and_what_it_left(redis, url, queue):
    redis.lpush(queue, celery_message(NAME, 1), celery_message("tasks.gone", id="there"))
    said = good("bridge", "celery", APP, "--from", url, "-q", queue)
    assert said.startswith("Took 1 message over from Celery to memory://.\nLeft 1 where they are:")
    assert "there  tasks.gone  no task here has its name" in said
    assert redis.llen(queue) == 1


def test_json_has_every_count(redis, url, queue):
    redis.lpush(queue, celery_message("old", 1), celery_message(NAME, 1))
    renamed = ("--task", "old=add")
    said = good_json("bridge", "celery", APP, "--from", url, "-q", queue, *renamed, "--dry-run")
    assert said.pop("held") >= 0
    assert said == {
        "taken": 2, "left": 0, "resumed": 0, "reasons": {}, "messages": [], "dry_run": True,
    }  # fmt: skip
    assert good_json("bridge", "celery", APP, "--from", url, "-q", queue, *renamed)["taken"] == 2


def test_many_that_are_left_are_counted_by_their_reasons(redis, url, queue):
    for _ in range(30):
        redis.lpush(queue, celery_message("tasks.gone"))
    said = good("bridge", "celery", APP, "--from", url, "-q", queue)
    assert said.count("tasks.gone") == 20
    assert said.endswith("30 in all: no task here has its name\n")


def test_jobs_of_rq_are_taken_and_pickled_ones_listed(redis, url, queue):
    rq_job(redis, "", f"{queue}-a", [NAME, None, [1], {}])
    rq_job(redis, "", f"{queue}-b", pickle.dumps(1), description=f"{NAME}(1)")
    redis.rpush(f"rq:queue:{queue}", f"{queue}-a", f"{queue}-b")
    said = good("bridge", "rq", APP, "--from", url, "-q", queue)
    assert said.startswith("Took 1 message over from RQ to memory://.\nLeft 1 where they are:")
    assert f"{NAME}  it is pickled; send it as JSON" in said
    assert redis.lrange(f"rq:queue:{queue}", 0, -1) == [f"{queue}-b".encode()]
    assert redis.delete(f"rq:job:{queue}-a", f"rq:job:{queue}-b") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([APP], 2, "Missing option '--from'"),
        ([APP, "--from", "amqp://x"], 2, "is no URL of Redis, where Celery keeps its queues"),
        ([APP, "--from", "redis://127.0.0.1:1"], 1, "start the bridge again"),
        ([APP, "--from", "redis://127.0.0.1:x"], 2, "is no URL of Redis"),
        ([APP, "--from", "redis://h", "--task", "old"], 2, "is not written OLD=NEW"),
        ([APP, "--from", "redis://h", "--task", "old=no"], 2, "'no' is not one of add"),
        ([APP, "--from", "redis://h", "--follow", "--dry-run"], 2, "give one of them"),
        (["--from", "redis://h"], 2, "no app is named"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_or_two(arguments, code, words):
    assert words in refused(code, "bridge", "celery", *arguments)


@pytest.mark.prove
def test_killed_again_and_again_each_message_is_one_job(redis, url, queue, tmp_path):
    """kill -9 after each few batches, then a bridge that comes to its end."""
    many = 2000
    for number in range(many):
        redis.lpush(queue, celery_message(NAME, number, id=f"{queue}-{number}"))
    store = f"sqlite:///{tmp_path}/jobs.db"

    do(store, lambda opened: opened.stats())
    command = ("bridge", "celery", APP, "--from", url, "-q", queue, "--json")
    for rest in (1500, 1000, 500):
        with process(*command, "--follow", TEST_STORE=store) as bridge:
            while redis.llen(queue) > rest:
                assert bridge.poll() is None
            bridge.kill()
    with process(*command, TEST_STORE=store) as bridge:
        assert bridge.stdout is not None
        said = json.loads(bridge.stdout.read())
    assert said["left"] == 0

    async def ids(opened):
        found, after = [], None
        while True:
            page = await opened.page(Selection(), 500, after, bodies=False)
            found += [job.id for job in page.jobs]
            after = page.after
            if after is None:
                return found

    assert sorted(do(store, ids)) == sorted(f"{queue}-{number}" for number in range(many))
    assert redis.keys(f"mulligan-bridge:celery:{queue}*") == []
