"""`app.limits` and `app.fairness`: what operators see and change, from Python."""

import asyncio
from datetime import timedelta

import pytest

from mulligan import InvalidError, Mulligan, UnknownLimitError
from mulligan.core.limits import Limit


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path):
    made = Mulligan("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    made.limit("openai", rate=60, per=60, pause_on_retry_after=True)
    made.limit("tenant:*", concurrency=2)
    made.queue("default", weights={"big": 3})

    @made.task(limits="openai", fairness_key=lambda who: who)
    def ask(who: str) -> None: ...

    made.configure()
    yield made
    made.close()


def test_limits_are_listed_set_and_reset(app):
    assert [view.name for view in app.limits.list()] == ["openai", "tenant:*"]
    view = app.limits.set("openai", rate=30)
    assert view.in_force == Limit(rate=30, per=60, pause_on_retry_after=True)
    assert app.limits.set("openai", burst=5).in_force.burst == 5
    assert app.limits.set("openai", rate=None, concurrency=1).in_force == Limit(
        concurrency=1, per=60, pause_on_retry_after=True
    )
    assert app.limits.reset("openai").in_force.rate == 60
    assert app.limits.get("tenant:acme").in_force == Limit(concurrency=2)


def test_a_pause_has_an_end_and_is_ended(app):
    assert app.limits.pause("openai", timedelta(minutes=1)).paused_until is not None
    assert app.limits.resume("openai").paused_until is None


def test_what_nobody_has_declared_is_refused_and_may_be_set(app):
    with pytest.raises(UnknownLimitError, match="no limit 'opnai' is stored; there are: openai"):
        app.limits.pause("opnai", 5)
    assert app.limits.set("other", concurrency=1).stored.set == Limit(concurrency=1)
    assert app.limits.reset("other") is None
    with pytest.raises(InvalidError, match="nothing is to change"):
        app.limits.set("openai")


def test_who_changes_a_limit_first_stores_what_is_declared_and_what_others_stored_stays(tmp_path):
    operator = Mulligan(f"sqlite:///{tmp_path}/jobs.db")
    operator.limit("openai", rate=60, per=60, concurrency=8)
    assert str(operator.limits.set("openai", rate=30).in_force) == "30 per 60 s, 8 at a time"
    operator.limit("disk", concurrency=1)
    assert operator.limits.pause("disk", 5).paused_until is not None
    late = Mulligan(f"sqlite:///{tmp_path}/jobs.db")
    late.limit("openai", rate=1)
    late.limits.reset("openai")
    assert str(late.limits.get("openai").in_force) == "60 per 60 s, 8 at a time"
    operator.close()
    late.close()


def test_keys_are_seen_with_their_shares(app):
    for who in ("acme", "acme", "big"):
        app.tasks["ask"].enqueue(who)
    seen = [(each.key, each.waiting, each.weight, each.share) for each in app.fairness("default")]
    assert seen == [("acme", 2, 1.0, 0.25), ("big", 1, 3.0, 0.75)]


async def test_the_same_from_coroutines(app):
    await app.limits.aset("openai", concurrency=3)
    await app.limits.apause("openai", 9)
    [view, _] = await app.limits.alist()
    assert (view.in_force.concurrency, view.paused_until is None) == (3, False)
    await app.limits.aresume("openai")
    await app.limits.areset("openai")
    assert (await app.limits.aget("openai")).in_force.concurrency is None
    assert await app.afairness("default") == []


@pytest.mark.parametrize("enqueue", ["plain", "coroutine", "many"])
def test_who_enqueues_stores_the_limits_before_the_first_job_that_names_one(tmp_path, enqueue):
    producer = Mulligan(f"sqlite:///{tmp_path}/jobs.db")
    producer.limit("openai", concurrency=1)

    @producer.task(limits="openai")
    def ask(who: str) -> None: ...

    @producer.task
    def free(who: str) -> None: ...

    free.enqueue("a")
    assert producer.limits.list() == []  # nobody pays for limits that no job names
    if enqueue == "plain":
        ask.enqueue("a")
    elif enqueue == "many":
        producer.enqueue_many([ask.call("a"), ask.call("b")])
    else:
        asyncio.run(ask.aenqueue("a"))
    stranger = Mulligan(f"sqlite:///{tmp_path}/jobs.db")
    assert [str(view.in_force) for view in stranger.limits.list()] == ["1 at a time"]
    producer.limit("tokens", rate=5)
    ask.enqueue("c")
    assert [view.name for view in stranger.limits.list()] == ["openai", "tokens"]
    stranger.limits.set("openai", concurrency=9)
    ask.enqueue("d")  # stores nothing again, and what an operator sets wins in any case
    assert str(stranger.limits.get("openai").in_force) == "9 at a time"
    producer.close()
    stranger.close()
