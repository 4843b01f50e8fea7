"""Sinks: called at least once for each accepted result, always with one key."""

import pytest

from mulligan import Delays, InvalidError, Mulligan, Retry, current_job, each
from mulligan.app.worker import new_worker, work

SOON = Retry(5, Delays((1,)))


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def saved():
    return []


@pytest.fixture
def save(app, saved):
    @app.sink(queue="sinks", retry=SOON)
    def save(result: object, key: str) -> None:
        saved.append((key, result))

    return save


def test_a_sink_is_called_with_the_accepted_result_and_a_key(app, save, saved):
    @app.task(sink=save)
    def ask(question: str) -> str:
        return question.upper()

    with app.testing() as t:
        ask.using(id="x").enqueue("why")
        t.drain()
    assert saved == [("x.0", "WHY")]


def test_a_bare_decorator_makes_a_sink(app, saved):
    @app.sink
    async def keep(result: int, key: str) -> None:
        saved.append(result)

    @app.task(sink=keep)
    def one() -> int:
        return 1

    with app.testing() as t:
        one.enqueue()
        t.drain()
    assert saved == [1]


def test_a_refused_result_never_reaches_the_sink(app, save, saved):
    @app.task(sink=save, retry=SOON, accept=lambda answer: answer != "Error")
    def ask() -> str:
        return "Error" if current_job().attempt < 3 else "fine"

    with app.testing() as t:
        ask.using(id="x").enqueue()
        t.drain()
    assert saved == [("x.0", "fine")]


def test_a_job_that_failed_for_good_never_reaches_the_sink(app, save, saved):
    @app.task(sink=save, retry=Retry(1, Delays((0,))), accept=lambda answer: answer != "Error")
    def ask() -> str:
        return "Error"

    with app.testing() as t:
        ask.enqueue()
        t.drain()
    assert saved == []


def test_a_sink_that_fails_is_called_again_with_the_same_key(app):
    keys = []

    @app.sink(retry=SOON)
    def fragile(result: int, key: str) -> None:
        keys.append(key)
        if current_job().attempt < 4:
            raise ConnectionError("away")

    @app.task(sink=fragile)
    def one() -> int:
        return 1

    with app.testing() as t:
        one.using(id="x").enqueue()
        t.drain()
    assert keys == ["x.0"] * 4


def test_a_dead_sink_is_replayed_with_the_same_key_and_the_task_does_not_run_again(app):
    keys, runs = [], []

    @app.sink(retry=Retry(0))
    def fragile(result: int, key: str) -> None:
        keys.append(key)
        if len(keys) == 1:
            raise ConnectionError("away")

    @app.task(sink=fragile)
    def one() -> int:
        runs.append(1)
        return 1

    with app.testing() as t:
        one.using(id="x").enqueue()
        t.drain()
        assert app.replay(["x~1.sink.0"]) == [True]
        t.drain()
    assert (keys, runs) == (["x.0", "x.0"], [1])


def test_a_replayed_job_has_a_key_of_its_own(app, save, saved):
    healthy: list[bool] = []

    @app.task(sink=save, retry=Retry(0))
    def ask() -> str:
        if not healthy:
            raise ConnectionError
        return "fine"

    with app.testing() as t:
        ask.using(id="x").enqueue()
        t.drain()
        healthy.append(True)
        app.replay(["x"])
        t.drain()
    assert saved == [("x.1", "fine")]


def test_every_stage_may_have_a_sink_and_so_may_every_member(app, save, saved):
    @app.task(sink=save)
    def split() -> list[int]:
        return [1, 2]

    @app.task(sink=save)
    def double(n: int) -> int:
        return 2 * n

    @app.task(sink=save)
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    with app.testing() as t:
        (split | each(double) | total).using(id="x").enqueue()
        t.drain()
    assert sorted(saved) == [("x.0", [1, 2]), ("x~1.2.0.0", 2), ("x~1.2.1.0", 4), ("x~1.3.0", 6)]


def test_a_result_of_none_reaches_the_sink(app, save, saved):
    @app.task(sink=save)
    def nothing() -> None: ...

    with app.testing() as t:
        nothing.using(id="x").enqueue()
        t.drain()
    assert saved == [("x.0", None)]


def test_a_sink_s_queue_is_served_and_its_results_may_have_a_sink_too(app, save, saved):
    @app.sink(sink=save)
    def count(result: str, key: str) -> int:
        return len(result)

    @app.task(sink=count)
    def ask() -> str:
        return "abc"

    assert "sinks" in app.queue_names
    with app.testing() as t:
        ask.using(id="x").enqueue()
        t.drain()
    assert saved == [("x~1.sink.0.0", 3)]


def test_what_is_no_task_is_no_sink(app):
    with pytest.raises(InvalidError, match=r"must be a task of the app; use @app\.sink"):
        app.task(sink=print)


def test_a_transactional_sink_is_the_last_stage(app):
    @app.sink(transactional=True)
    def write(connection: object, result: int) -> None: ...

    @app.task
    def one() -> int:
        return 1

    @app.task
    def after(n: None) -> None: ...

    assert repr(one | write) == "<chain one | write>"
    with pytest.raises(InvalidError, match="write is a transactional sink; let it be the last"):
        app.chain(one, write, after)


async def test_a_store_without_transactions_refuses_a_transactional_sink_when_a_worker_starts(app):
    @app.sink(transactional=True)
    def write(connection: object, result: int, key: str) -> None: ...

    with pytest.raises(
        InvalidError,
        match="sink write is transactional, and memory:// has no transactions;"
        " use SQLite or PostgreSQL, or let it tell by its key what it has seen",
    ):
        await work(app, new_worker(app))


def test_a_sink_that_does_not_take_a_key_is_refused_where_it_is_named(app):
    @app.task
    def keyless(result: str) -> None: ...

    with pytest.raises(InvalidError, match=r"keyless.* cannot be called so"):
        app.task(sink=keyless)


def test_ids_leave_room_for_what_follows_from_them(app):
    @app.sink
    def save(result: str, key: str) -> None: ...

    @app.task(sink=save)
    def ask() -> str:
        return ""

    with pytest.raises(InvalidError, match="use at most 100 where it has a sink"):
        ask.using(id="x" * 101).call()
