"""Fan-in: calls of any tasks, and one job with all their results."""

import pytest

from mulligan import InvalidError, JobCancelledError, Mulligan, Retry, each


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def tasks(app):
    @app.task
    def double(n: int) -> int:
        return 2 * n

    @app.task
    def square(n: int) -> int:
        return n * n

    @app.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    return double, square, total


def test_results_are_gathered_in_the_order_of_the_calls(app, tasks):
    double, square, _ = tasks

    @app.task
    def listed(numbers: list[int]) -> list[int]:
        return numbers

    with app.testing(concurrency=3):
        job = app.gather([double.call(3), square.call(3), double.call(1)], listed)
        assert job.result() == [6, 9, 2]
        assert [(s.name, s.members) for s in job.stages()] == [
            ("each(double, square)", 3),
            ("listed", 1),
        ]


def test_nothing_to_gather_starts_at_once(app, tasks):
    *_, total = tasks
    with app.testing():
        assert app.gather([], total).result() == 0


def test_what_gathers_may_be_a_chain(app, tasks):
    double, square, total = tasks
    with app.testing():
        job = app.gather([double.call(1), double.call(2)], total | square)
        assert job.result() == 36


def test_a_call_that_failed_leaves_the_rest_waiting_until_it_is_replayed(app, tasks):
    double, _, total = tasks
    healthy: list[bool] = []

    @app.task(retry=Retry(0))
    def fragile(n: int) -> int:
        if not healthy:
            raise ConnectionError("away")
        return n

    with app.testing() as t:
        job = app.gather([double.call(1), fragile.call(5)], total, id="g")
        t.advance(10)
        assert job.status == "pending"
        healthy.append(True)
        assert app.replay(["g.1.1"]) == [True]
        assert job.result() == 7


def test_a_call_that_is_cancelled_cancels_what_gathers(app, tasks):
    double, _, total = tasks
    with app.testing():
        app.pause("default")
        job = app.gather([double.call(1), double.call(2)], total, id="g")
        app.job("g.1.0").cancel()
        with pytest.raises(JobCancelledError, match=r"job g\.1\.0, which it awaits"):
            job.result()


def test_sending_it_again_under_its_id_completes_what_is_missing(app, tasks):
    double, _, total = tasks
    calls = [double.call(n) for n in (1, 2)]
    with app.testing() as t:
        first = app.gather(calls, total, id="g")
        again = app.gather(calls, total, id="g")
        assert (first.created, again.created) == (True, False)
        assert again.result() == 6
        t.drain()
        assert len(t.jobs()) == 3


def test_many_calls_are_sent_in_batches(app, tasks):
    double, _, total = tasks
    with app.testing(concurrency=100):
        job = app.gather([double.call(1)] * 1500, total)
        assert job.result() == 3000


async def test_it_may_be_sent_from_a_coroutine(app, tasks):
    double, _, total = tasks
    job = await app.agather([double.call(1)], total, id="g")
    assert (await job.ainfo()).awaits == 1
    app.close()


def test_cancelling_it_ends_the_calls_too(app, tasks):
    double, _, total = tasks
    with app.testing() as t:
        app.pause("default")
        job = app.gather([double.call(1), double.call(2)], total)
        assert job.cancel("not needed")
        assert {each_.status for each_ in t.jobs()} == {"cancelled"}


def test_an_argument_named_flow_is_an_argument(app):
    @app.task
    def keep(value: dict[str, int]) -> int:
        return value["flow"]

    @app.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    with app.testing():
        assert app.gather([keep.call({"flow": 4, "sink": 1})], total).result() == 4


def test_what_could_not_work_is_refused(app, tasks):
    double, square, total = tasks

    @app.task
    def plain() -> None: ...

    with pytest.raises(InvalidError, match=r"not each\(\.\.\.\)"):
        app.gather([double.call(1)], each(square))
    with pytest.raises(InvalidError, match="at most 10000 calls, not 10001; put several into one"):
        app.gather([double.call(1)] * 10_001, total)
    with pytest.raises(InvalidError, match="its result would be missing; take it away"):
        app.gather([double.using(unique_key="k").call(1)], total)
    with pytest.raises(InvalidError, match="starts when the last call is done"):
        app.gather([double.call(1)], total.using(delay=5))
    with pytest.raises(InvalidError, match="total has id=, which only the first job"):
        app.gather([double.call(1)], total.using(id="x"))
    with pytest.raises(InvalidError, match="called with the result before it alone"):
        app.gather([double.call(1)], plain)
    with pytest.raises(InvalidError, match="id '' has 0 characters"):
        app.gather([double.call(1)], total, id="")
    with pytest.raises(InvalidError, match="that of a chain has at most 100"):
        app.gather([double.call(1)], total, id="x" * 101)
