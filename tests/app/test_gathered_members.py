"""Members of a gather that are chains or gathers, as a caller has them."""

from typing import Any

import pytest

from mulligan import Fail, Failure, InvalidError, Mulligan, Progress, Retry, each


@pytest.fixture
def app():
    made: Any = Mulligan("memory://")
    made.broken = True
    return made


@pytest.fixture
def tasks(app):
    """Some tasks, of which `fragile` fails for 6 while the app is broken."""

    class Tasks:
        """Tasks by name."""

        @app.task
        @staticmethod
        def double(n: int) -> int:
            return 2 * n

        @app.task(retry=Retry(0))
        @staticmethod
        def fragile(n: int) -> int:
            if app.broken and n == 6:
                raise Fail("six")
            return n + 1

        @app.task
        @staticmethod
        def upto(n: int) -> list[int]:
            return list(range(n))

        @app.task
        @staticmethod
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task
        @staticmethod
        def told(numbers: list[int | Failure]) -> list[str]:
            return [n.reason if isinstance(n, Failure) else str(n) for n in numbers]

    return Tasks


def everything(app, tasks, **options):
    """A task, a chain, a chain that spreads, and a gather, one of whose members is a chain."""
    inner = app.gather_call(
        [tasks.double.call(1), (tasks.double | tasks.fragile).call(3)], tasks.total
    )
    spreads = tasks.upto | each(tasks.double) | tasks.total | tasks.double
    calls = [tasks.double.call(5), (tasks.double | tasks.double).call(1), spreads.call(4), inner]
    return app.gather(calls, tasks.total, **options)


@pytest.mark.parametrize("name", [None, "g"])
def test_the_last_result_of_each_member_arrives(app, tasks, name):
    app.broken = False
    with app.testing() as t:
        whole = everything(app, tasks, id=name)
        assert whole.result() == 10 + 4 + 24 + (2 + 7)
        assert whole.progress() == Progress(4, 4, 0, 0)
        t.drain()
        assert {job.status for job in t.jobs()} == {"done"}


@pytest.mark.parametrize("name", [None, "g"])
def test_what_failed_deep_inside_is_told_and_replayed_by_the_whole(app, tasks, name):
    with app.testing() as t:
        whole = everything(app, tasks, id=name)
        t.advance(10)
        assert whole.progress() == Progress(4, 3, 0, 0)
        assert [failure.reason for failure in whole.failures()] == ["six"]
        app.broken = False
        assert whole.replay() == 1
        assert whole.result() == 47
        assert (whole.failures(), whole.replay()) == ([], 0)


@pytest.mark.parametrize("name", [None, "g"])
def test_all_of_it_is_cancelled_as_one(app, tasks, name):
    with app.testing() as t:
        app.pause("default")
        whole = everything(app, tasks, id=name)
        assert whole.cancel("enough")
        assert {job.status for job in t.jobs()} == {"cancelled"}
        assert whole.progress() == Progress(4, 0, 0, cancelled=4)
        assert not whole.cancel("again")


@pytest.mark.parametrize("name", [None, "g"])
def test_what_is_under_way_inside_a_chain_is_cancelled_too(app, tasks, name):
    with app.testing() as t:
        slow = tasks.double | tasks.fragile.using(delay=60)
        spreads = tasks.upto | each(tasks.double.using(delay=60)) | tasks.total
        whole = app.gather([slow.call(1), spreads.call(3)], tasks.total, id=name)
        t.advance(10)
        assert whole.progress() == Progress(2, 0, 0, 0)
        assert whole.cancel("enough")
        left = [job for job in t.jobs() if job.status != "done"]
        assert {job.status for job in left} == {"cancelled"}
        assert len(left) == 1 + 3 + 1 + 1
        assert whole.progress() == Progress(2, 0, 0, cancelled=2)


def test_failures_of_chains_and_gathers_are_values(app, tasks):
    with app.testing() as t:
        inner = app.gather_call([tasks.double.call(3)], tasks.total | tasks.fragile)
        chain = tasks.double | tasks.fragile | tasks.double
        whole = app.gather(
            [chain.call(3), chain.call(1), inner], tasks.told, return_exceptions=True
        )
        t.drain()
        assert whole.result() == ["six", "6", "six"]
        assert whole.progress() == Progress(3, 1, 2, 0)
        jobs = [failure.job for failure in whole.failures()]
        assert jobs == [f"{whole.id}.1.0.2", f"{whole.id}.1.2.3"]


def test_a_gather_inside_may_take_failures_as_values(app, tasks):
    with app.testing() as t:
        inner = app.gather_call(
            [tasks.fragile.call(6), tasks.fragile.call(1)], tasks.told, return_exceptions=True
        )

        @app.task
        def flat(lists: list[list[str]]) -> list[str]:
            return [text for texts in lists for text in texts]

        whole = app.gather([inner, inner], flat)
        t.drain()
        assert whole.result() == ["six", "2"] * 2


def test_stages_shows_the_newest_job_of_each_member(app, tasks):
    with app.testing() as t:
        whole = everything(app, tasks, id="g")
        t.advance(10)
        first, second = whole.stages()
        assert first.name == (
            "each(double, double | double, upto | each(double) | total | double,"
            " each(double, double | fragile) | total)"
        )
        assert [job.status for job in first.jobs] == ["done", "done", "done", "pending"]
        assert [job.task for job in first.jobs] == ["double", "double", "double", "total"]
        assert (first.members, second.name) == (4, "total")


def test_sending_it_again_under_its_id_adds_nothing(app, tasks):
    app.broken = False
    with app.testing() as t:
        first, again = everything(app, tasks, id="g"), everything(app, tasks, id="g")
        assert (first.created, again.created) == (True, False)
        assert again.result() == 47
        assert everything(app, tasks, id="g").result() == 47
        t.drain()
        assert len(t.jobs()) == 1 + 1 + 2 + (1 + 4 + 2) + (1 + 1 + 2)


def test_gathers_nest_as_deep_as_their_names_allow(app, tasks):
    with app.testing():
        nested = app.gather_call([tasks.double.call(1)], tasks.total)
        for _ in range(5):
            nested = app.gather_call([nested, tasks.double.call(1)], tasks.total)
        assert app.gather([nested], tasks.total).result() == 12
        for _ in range(10):
            nested = app.gather_call([nested], tasks.total)
        with pytest.raises(InvalidError, match="its jobs are named after it"):
            app.gather([nested], tasks.total, id="x" * 80)


def test_ten_thousand_chains_are_gathered_and_cancelled(app, tasks):
    with app.testing() as t:
        chain = tasks.double | tasks.fragile.using(delay=60)
        whole = app.gather([chain.call(1)] * 10_000, tasks.total)
        assert whole.cancel("enough")
        assert {job.status for job in t.jobs()} == {"cancelled"}


def test_what_could_not_work_is_refused(app, tasks):
    with pytest.raises(
        InvalidError, match=r"upto \| each\(double\) ends in many jobs.* add a stage"
    ):
        app.gather([(tasks.upto | each(tasks.double)).call(1)], tasks.total)
    chain = (tasks.double | tasks.double).using(unique_key="k")
    with pytest.raises(InvalidError, match="its result would be missing; take it away"):
        app.gather([chain.call(1)], tasks.total)
    inner = app.gather_call([tasks.double.call(1)], tasks.total)
    with pytest.raises(InvalidError, match=r"member of another gather; .* app\.gather\(calls"):
        app.enqueue_many([inner])
    with pytest.raises(InvalidError, match="a failure is a value in that list"):
        app.gather_call([tasks.double.call(1)], tasks.total, return_exceptions=True)
    with pytest.raises(InvalidError, match="at most 10000 calls, not 10001"):
        app.gather_call([tasks.double.call(1)] * 10_001, tasks.total)
