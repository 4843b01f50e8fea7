"""Texts that come from anywhere: errors, reasons, codes, names. Every store keeps them."""

import pytest

from mulligan import Delays, Fail, InvalidError, Mulligan, Retry
from mulligan.core.page import Selection
from mulligan.core.settings import TEXT_LIMIT
from tests.hostile.worker import bare, ended, working

TEXTS = {
    "nul": "a\0b",
    "half": "a\ud800b",
    "lines": "a\r\nb\u2028c\x1b[2Jd",
    "quotes": "'; DROP TABLE job; -- \"`$where %s {} \\",
    "long": "x" * 1_000_000,
    "empty": "",
    "tabs": "a\tb\t",
    "operator": "$gt",
    "face": "\U0001f600",
}


class Broken(Exception):  # noqa: N818 - it is
    """Whoever asks what is wrong makes it worse."""

    def __str__(self) -> str:
        raise RuntimeError("worse")

    __repr__ = __str__


async def test_any_error_text_is_kept_and_the_job_fails_as_ever(app: Mulligan):
    @app.task(retry=Retry(1, Delays((0,))))
    async def fail(name: str) -> None:
        if name == "broken":
            raise Broken
        if name == "fail":
            raise Fail("".join(TEXTS.values()), code=TEXTS["lines"] + TEXTS["half"] + TEXTS["nul"])
        raise ValueError(TEXTS[name])

    names = [*TEXTS, "broken", "fail"]
    async with bare(app) as store, working(app):
        for name in names:
            await fail.using(id=name).aenqueue(name)
        jobs = [await ended(store, name) for name in names]
        histories = [await store.history(name) for name in names]
        page = await store.page(Selection(status="failed"), 100)
    assert {job.status for job in jobs} == {"failed"}
    assert {job.id for job in page.jobs} == set(names)
    for attempts in histories:
        for attempt in attempts:
            assert attempt.message
            assert len(attempt.message) <= TEXT_LIMIT
            assert "\0" not in attempt.message + str(attempt.code)
            (attempt.message + str(attempt.code)).encode()
    reasons = {job.id: job.last_failure_reason for job in jobs}
    assert reasons["lines"] == f"ValueError: {TEXTS['lines']}"
    assert reasons["quotes"] == f"ValueError: {TEXTS['quotes']}"
    assert reasons["half"] == "ValueError: a?b"
    assert reasons["broken"] == f"{__name__}.Broken: <its message cannot be shown>"


async def test_any_reason_for_a_cancellation_is_kept(app: Mulligan):
    @app.task
    async def never() -> None: ...

    async with bare(app) as store:
        for name, text in TEXTS.items():
            job = await never.using(id=name, delay=60).aenqueue()
            assert await job.acancel(text)
        jobs = [await ended(store, name) for name in TEXTS]
    reasons = {job.id: str(job.cancel_reason) for job in jobs}
    assert reasons["quotes"] == TEXTS["quotes"]
    assert reasons["nul"] == "ab"
    assert reasons["half"] == "a?b"
    assert len(reasons["long"]) == TEXT_LIMIT


async def test_a_search_for_any_text_finds_what_is_there_and_nothing_else(app: Mulligan):
    @app.task(retry=Retry(0))
    async def fail(name: str) -> None:
        raise ValueError(TEXTS[name])

    searched = ("lines", "quotes", "tabs", "operator", "face")
    async with bare(app) as store, working(app):
        for name in searched:
            await fail.using(id=name).aenqueue(name)
            await ended(store, name)
        for name in searched:
            page = await store.page(Selection(status="failed", text=TEXTS[name]), 10)
            assert [job.id for job in page.jobs] == [name]
        for pattern in (".*", "%", "_", "(", "[", "\\", "{$ne: 1}", "'", "*"):
            page = await store.page(Selection(status="failed", text=pattern), 10)
            assert all(pattern in str(job.last_failure_reason) for job in page.jobs), pattern


LOOKED_FOR = ["a\0b", "a\nb", "\ud800", {"$gt": ""}, {"$ne": None}, ["a"], 7, None, b"a"]


@pytest.mark.parametrize("name", LOOKED_FOR, ids=repr)
async def test_only_text_is_looked_for_in_a_store(app: Mulligan, name):
    """A document in place of an id would be an operator to MongoDB."""

    @app.task
    async def never() -> None: ...

    await never.using(id="a", delay=60).aenqueue()
    for refused in (
        lambda: app.job(name).ainfo(),
        lambda: app.areplay([name]),
        lambda: app.apurge([name]),
        lambda: app.aexplain(name),
        lambda: app.apause(name),
        lambda: app.aresume(name),
    ):
        with pytest.raises(InvalidError, match=r"must be text|control character"):
            await refused()
    if name is not None:
        with pytest.raises(InvalidError, match=r"must be text|control character"):
            app.dead_letters(name)
    assert (await app.job("a").ainfo()).status == "pending"


async def test_names_that_are_operators_elsewhere_are_names_here(app: Mulligan):
    @app.task(name="$where")
    async def odd() -> str:
        return "fine"

    names = ["$gt", "a.b", "*", "a%", "{}", "'", "--", "a:b", "a/b", "..", "{a}", "%s", "a b"]
    async with bare(app) as store, working(app):
        for name in names:
            await odd.using(id=name, unique_key=name, fairness_key=name).aenqueue()
        jobs = [await ended(store, name) for name in names]
        assert await store.get("$g") is None
        assert await store.get("a") is None
    assert {(job.status, job.task) for job in jobs} == {("done", "$where")}
    assert [job.id for job in jobs] == names
