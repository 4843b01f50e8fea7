"""soft_timeout: SoftTimeout is raised inside the coroutine, which may end in order."""

import asyncio
from datetime import timedelta

import pytest

from mulligan import InvalidError, JobFailedError, Mulligan, Retry, SoftTimeout


@pytest.fixture
def app():
    return Mulligan("memory://")


def test_it_is_raised_where_the_coroutine_waits_which_may_return_what_it_has(app):
    @app.task(soft_timeout=3)
    async def count() -> int:
        done = 0
        try:
            while True:
                await asyncio.sleep(1.2)
                done += 1
        except SoftTimeout:
            return done

    with app.testing() as t:
        assert count.enqueue().result() == 2
        assert t.now == pytest.approx(3, abs=0.5)


def test_one_that_is_not_caught_is_a_failed_attempt(app):
    @app.task(soft_timeout=timedelta(seconds=2), retry=Retry(0))
    async def endless() -> None:
        await asyncio.Event().wait()

    with app.testing() as t:
        job = endless.enqueue()
        with pytest.raises(JobFailedError, match="the attempt has run for 2 s"):
            job.result()
        [attempt] = job.history()
        assert (attempt.type, t.now) == ("SoftTimeout", pytest.approx(2, abs=0.5))


def test_it_is_raised_once_and_the_timeout_ends_the_attempt_after_it(app):
    raised = []

    @app.task(soft_timeout=2, timeout=5, retry=Retry(0))
    async def stubborn() -> None:
        for _ in range(10):
            try:
                await asyncio.sleep(1)
            except SoftTimeout:
                raised.append("soft")

    with app.testing() as t:
        job = stubborn.enqueue()
        with pytest.raises(JobFailedError, match="longer than 5 s"):
            job.result()
        assert [each.type for each in job.history()] == ["Timeout"]
        assert (raised, t.now) == (["soft"], pytest.approx(5, abs=0.5))


def test_a_broad_except_catches_it_too(app):
    @app.task(soft_timeout=1)
    async def broad() -> str:
        try:
            await asyncio.sleep(60)
        except Exception as error:  # noqa: BLE001
            return str(error)
        return "slept"

    with app.testing():
        assert broad.enqueue().result() == "the attempt has run for 1 s"


def test_a_task_group_ends_what_it_has_begun(app):
    ended = []

    async def part() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("part")

    @app.task(soft_timeout=1)
    async def grouped() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(part())
                group.create_task(part())
        except SoftTimeout:
            return f"{len(ended)} ended"
        return "slept"

    with app.testing():
        assert grouped.enqueue().result() == "2 ended"


def test_what_the_coroutine_awaits_cannot_swallow_it(app):
    async def swallows() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "swallowed"
        return "slept"

    @app.task(soft_timeout=1)
    async def waits() -> str:
        try:
            return await asyncio.ensure_future(swallows())
        except SoftTimeout:
            return "raised"

    with app.testing():
        assert waits.enqueue().result() == "raised"


def test_one_that_ends_in_time_never_sees_it(app):
    @app.task(soft_timeout=2, timeout=3)
    async def brief() -> str:
        await asyncio.sleep(1)
        return "in time"

    with app.testing() as t:
        assert brief.enqueue().result() == "in time"
        t.advance(5)


def test_a_timeout_at_the_same_time_ends_the_attempt(app):
    seen = []

    @app.task(soft_timeout=2, timeout=2.0001, retry=Retry(0))
    async def both() -> None:
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            seen.append(error)
            raise

    with app.testing():
        job = both.enqueue()
        with pytest.raises(JobFailedError):
            job.result()
    assert len(seen) == 1


def test_a_lost_job_is_stopped_all_the_same(app):
    @app.task(soft_timeout=60)
    async def held() -> None:
        await asyncio.sleep(100)

    with app.testing() as t:
        job = held.enqueue()
        t.advance(10)
        job.cancel()
        t.drain()
        t.advance(100)
        assert [each.status for each in t.jobs()] == ["cancelled"]


def test_a_plain_function_is_refused_one_with_the_remedy(app):
    with pytest.raises(InvalidError, match=r"task 'plain' has soft_timeout 5, .* \(async def\)"):

        @app.task(soft_timeout=5)
        def plain() -> None: ...

    assert not app.tasks


def test_neither_the_task_nor_one_call_may_have_a_shorter_timeout(app):
    with pytest.raises(InvalidError, match="soft_timeout 5 must be shorter than timeout 5"):

        @app.task(soft_timeout=5, timeout=5)
        async def equal() -> None: ...

    @app.task(soft_timeout=5)
    async def soft() -> None: ...

    with pytest.raises(InvalidError, match="soft_timeout 5 must be shorter than timeout 2"):
        soft.using(timeout=2)


@pytest.mark.parametrize("wrong", [0, -1, "5", None.__class__, float("nan")])
def test_what_is_no_duration_is_refused(app, wrong):
    with pytest.raises(InvalidError, match="soft_timeout"):
        app.task(soft_timeout=wrong)
