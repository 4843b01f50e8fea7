"""What someone who writes tasks and tests them may rely on."""

import asyncio

from mulligan import Delays, Mulligan, Retry, RetryAfter, current_job
from tests.engine.test_on_every_store import working


def make_app():
    """An app whose task fails in several ways before it succeeds, and what its attempts saw."""
    app = Mulligan("memory://")
    seen: list[tuple[int, str]] = []

    @app.task(retry=Retry(5, Delays((0.0, 0.01))), accept=lambda value: value != "Error")
    async def flaky() -> str:
        seen.append((current_job().attempt, current_job().lane))
        match current_job().attempt:
            case 1:
                raise ConnectionError("away")
            case 2:
                return "Error"
            case 3:
                raise RetryAfter(0.02, "busy")
            case _:
                return "fine"

    return app, flaky, seen


async def in_a_worker():
    """The task run by a whole worker, in real time."""
    app, flaky, seen = make_app()
    async with working(app):
        job = await flaky.aenqueue()
        await job.aresult(timeout=60)
        return told(await job.ainfo(), await job.ahistory(), seen)


def in_a_test():
    """The task run by `app.testing()`, in virtual time."""
    app, flaky, seen = make_app()
    with app.testing():
        job = flaky.enqueue()
        job.result()
        return told(job.info(), job.history(), seen)


def told(job, history, seen):
    """All of a job that does not depend on when and where it ran."""
    attempts = [
        (each.number, each.type, each.message, each.code, each.delay, each.refused)
        for each in history
    ]
    return job.status, job.retry_count, job.result, job.scope, job.lane_priority, attempts, seen


def test_tests_run_the_real_retry_path_and_not_another_one():
    """celery#2164, huey#384: in their test mode retries ran at once, recursively, or not at all."""
    real = asyncio.run(in_a_worker())
    assert in_a_test() == real
    assert real[1] == 3
