"""Gathers that end whatever becomes of their members, as a caller has them."""

from dataclasses import dataclass
from typing import Any

import pytest

from mulligan import Delays, Fail, Failure, InvalidError, Mulligan, Progress, Retry

ONCE = Retry(1, Delays((1,)))


@pytest.fixture
def app():
    made: Any = Mulligan("memory://")
    made.broken = True
    made.told = []
    return made


@dataclass
class Page:
    """What a task returns."""

    url: str
    size: int


@pytest.fixture
def fetch(app):
    @app.task(retry=ONCE)
    async def fetch(url: str) -> Page:
        if app.broken and url.startswith("bad"):
            raise ConnectionError(f"no route to {url}")
        return Page(url, len(url))

    return fetch


@pytest.fixture
def report(app):
    @app.task
    async def report(pages: list[Page | Failure]) -> list[str]:
        app.told.append(pages)
        return [
            f"{each.type} after {each.attempts}: {each.reason}"
            if isinstance(each, Failure)
            else each.url
            for each in pages
        ]

    return report


def test_then_runs_when_every_member_has_ended_with_failures_as_values(app, fetch, report):
    with app.testing() as t:
        calls = [fetch.call(url) for url in ("one", "bad", "three")]
        whole = app.gather(calls, report, return_exceptions=True)
        assert whole.progress() == Progress(3, 0, 0, 0)
        t.drain()
        assert whole.result() == ["one", "ConnectionError after 2: no route to bad", "three"]
        assert whole.progress() == Progress(members=3, done=2, failed=1, cancelled=0)
        [failure] = whole.failures()
        assert failure == Failure(f"{whole.id}.1.1", "ConnectionError", "no route to bad", 2)
        assert app.told[0][0] == Page("one", 3)


async def test_cancelled_members_and_coroutines(app, fetch, report):
    async with app.testing() as t:
        calls = [fetch.call("one"), fetch.using(delay=60).call("two")]
        whole = await app.agather(calls, report, return_exceptions=True)
        await t.aadvance(1)
        assert (await whole.aprogress()).open == 1
        await app.job(f"{whole.id}.1.1").acancel("not wanted")
        await t.adrain()
        assert await whole.aresult() == ["one", "Cancelled after 0: not wanted"]
        assert [each.type for each in await whole.afailures()] == ["Cancelled"]


def test_without_it_a_failed_member_is_awaited_and_the_gather_says_so(app, fetch):
    @app.task
    def sizes(pages: list[Page]) -> int:
        return sum(page.size for page in pages)

    with app.testing() as t:
        whole = app.gather([fetch.call("one"), fetch.call("bad")], sizes)
        t.advance(60)
        assert whole.progress() == Progress(2, 1, 1, 0)
        assert whole.progress().open == 0
        assert "1 of which failed: it goes on when they are replayed" in whole.explain()
        assert [each.reason for each in whole.failures()] == ["no route to bad"]
        app.broken = False
        assert whole.replay() == 1
        t.drain()
        assert whole.result() == 6
        assert whole.failures() == []
        assert whole.replay() == 0


def test_a_gather_is_cancelled_as_one(app, fetch, report):
    with app.testing():
        calls = [fetch.using(delay=60).call(f"{n}") for n in range(1500)]
        whole = app.gather(calls, report, return_exceptions=True)
        assert whole.cancel("enough")
        statuses = {job.status for stage in whole.stages() for job in stage.jobs}
        assert statuses == {"cancelled"}
        assert not whole.cancel("again")


def test_then_that_failed_is_replayed_by_the_gather(app, fetch):
    @app.task
    def judge(pages: list[Any]) -> int:
        if app.broken:
            raise Fail("not good enough")
        return len(pages)

    with app.testing() as t:
        whole = app.gather([fetch.call("bad")], judge, return_exceptions=True)
        t.drain()
        app.broken = False
        assert whole.replay() == 1
        t.drain()
        assert whole.result() == 1


def test_ten_thousand_members_are_counted_without_reading_them(app):
    @app.task(retry=Retry(0))
    async def number(value: int) -> int:
        if value % 10 == 0:
            raise ValueError("round")
        return value

    @app.task
    async def split(values: list[int | Failure]) -> tuple[int, int]:
        failed = sum(isinstance(each, Failure) for each in values)
        return len(values) - failed, failed

    with app.testing() as t:
        calls = [number.call(value) for value in range(10_000)]
        whole = app.gather(calls, split, return_exceptions=True)
        t.drain()
        assert whole.result() == (9_000, 1_000)
        assert whole.progress() == Progress(10_000, 9_000, 1_000, 0)
        assert len(whole.failures()) == 1_000


def test_a_list_without_room_for_failures_is_refused(app, fetch):
    @app.task
    def sizes(pages: list[Page]) -> int:
        return len(pages)

    words = r"sizes takes list\[Page\], and with return_exceptions=True a failure .*\| Failure"
    with pytest.raises(InvalidError, match=words):
        app.gather([fetch.call("one")], sizes, return_exceptions=True)


@pytest.mark.parametrize("kind", ["nothing", "list", "list[Any]", "ignores"])
def test_what_takes_anything_takes_failures(app, fetch, kind):
    annotations = {"nothing": None, "list": list, "list[Any]": list[Any], "ignores": str}

    def then(values="none"):
        return [type(each).__name__ for each in values] if kind != "ignores" else values

    if annotations[kind] is not None:
        then.__annotations__["values"] = annotations[kind]
    task = app.task(then)
    stage = task.without_result("none") if kind == "ignores" else task
    with app.testing() as t:
        whole = app.gather([fetch.call("bad")], stage, return_exceptions=True)
        t.drain()
        assert whole.result() == ("none" if kind == "ignores" else ["Failure"])


def test_an_empty_gather_goes_straight_on(app, report):
    with app.testing() as t:
        whole = app.gather([], report, return_exceptions=True)
        t.drain()
        assert whole.result() == []
        assert whole.progress() == Progress(0, 0, 0, 0)
