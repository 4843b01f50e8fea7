"""Timelines that must come out exactly, from the real engine on the virtual clock."""

import asyncio
from collections.abc import Sequence

import pytest

from mulligan import Exponential, Mulligan, Retry, Sessions, Settings, current_job
from mulligan.core.job import Job

QUESTIONS = ("A-q1", "A-q2", "A-q3", "B-q1", "B-q2", "B-q3")
QUICK = Retry(3, Exponential(2, 2, 60, "none"))

Start = tuple[float, str, int, str]


def play(
    jobs: Sequence[str],
    *,
    fails: dict[str, Sequence[int]],
    policy: str = "retry-first",
    retry: Retry = QUICK,
    duration: float = 30,
    hold: bool | None = None,
    until: float | None = None,
    settings: Settings | None = None,
) -> tuple[list[Start], list[Job]]:
    """Run one worker of one slot over the jobs; the starts in order, and how the jobs ended."""
    app = Mulligan("memory://", settings=settings)
    app.queue("default", policy=policy)
    starts: list[Start] = []

    @app.task(retry=retry)
    async def ask(name: str) -> str:
        job = current_job()
        starts.append((asyncio.get_running_loop().time(), name, job.attempt, job.lane))
        await asyncio.sleep(duration)
        if job.attempt in fails.get(name, ()):
            raise TimeoutError(name)
        return name

    with app.testing(concurrency=1, hold_through_backoff=hold) as t:
        for name in jobs:
            ask.enqueue(name)
        if until is None:
            t.drain()
        else:
            t.advance(until)
        return starts, t.jobs()


def names_and_times(starts: list[Start]) -> list[tuple[str, float]]:
    return [(name, at) for at, name, _, _ in starts]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "retry-first",
            "A-q1 0, A-q1 32, A-q2 62, A-q3 92, B-q1 122, B-q2 152, B-q3 182",
        ),
        (
            "fifo",
            "A-q1 0, A-q2 32, A-q3 62, B-q1 92, B-q2 122, B-q3 152, A-q1 182",
        ),
    ],
)
def test_a_worker_that_holds_through_backoff(policy, expected):
    starts, _ = play(QUESTIONS, fails={"A-q1": [1]}, policy=policy, hold=True)
    assert ", ".join(f"{name} {at:g}" for name, at in names_and_times(starts)) == expected


def test_the_settings_of_the_app_decide_on_holding_unless_the_test_does():
    holding = Settings(hold_through_backoff=True)
    for hold, second in ((None, 32), (False, 60)):
        starts, _ = play(QUESTIONS[:2], fails={"A-q1": [1]}, hold=hold, settings=holding)
        assert ("A-q1", second) in names_and_times(starts)


def test_a_slot_is_held_through_a_backoff_that_is_longer_than_a_beat():
    slow = Retry(1, Exponential(20, 2, 60, "none"))
    starts, _ = play(["a", "b"], fails={"a": [1]}, retry=slow, hold=True)
    assert names_and_times(starts) == [("a", 0), ("a", 50), ("b", 80)]


@pytest.mark.parametrize(("policy", "retried_at"), [("retry-first", 60), ("fifo", 180)])
def test_a_worker_that_does_not_hold_starts_the_next_job_meanwhile(policy, retried_at):
    starts, _ = play(QUESTIONS, fails={"A-q1": [1]}, policy=policy)
    assert names_and_times(starts)[:2] == [("A-q1", 0), ("A-q2", 30)]
    assert ("A-q1", retried_at) in names_and_times(starts)


def test_three_retries_that_all_fail_end_as_failed_and_are_not_queued_again():
    starts, [job] = play(["x"], fails={"x": range(1, 100)})
    assert [at for at, *_ in starts] == [0, 32, 66, 104]
    assert (job.status, job.ended_at, job.retry_count) == ("failed", 134, 3)


def test_sessions_pause_longer_after_each_burst():
    starts, [job] = play(
        ["x"], fails={"x": range(1, 100)}, retry=Retry(None, Sessions()), until=5000
    )
    assert [at for at, *_ in starts] == [
        *(0, 30, 65, 395, 425, 460, 1090, 1120, 1155),
        *(2385, 2415, 2450, 4880, 4910, 4945),
    ]
    assert job.result is None


def test_weighted_keeps_fresh_work_at_its_share_in_every_prefix():
    failing = [f"f{i}" for i in range(100)]
    starts, jobs = play(
        [*failing, *(f"g{i}" for i in range(400))],
        fails=dict.fromkeys(failing, (1,)),
        policy="weighted(retry=0.2)",
        retry=Retry(3, Exponential(2, 2, 60, "none")),
        duration=1,
    )
    assert {job.status for job in jobs} == {"done"}
    both_wait = contended(starts)
    assert len(both_wait) > 300
    fresh = 0
    for count, (_, _, attempt, _) in enumerate(both_wait, 1):
        fresh += attempt == 1
        assert abs(fresh - 0.8 * count) <= 1


def contended(starts: list[Start]) -> list[Start]:
    """The starts made while both a due retry and a fresh job waited."""
    due = {name: at + 1 + 2 for at, name, attempt, _ in starts if attempt == 1 and name[0] == "f"}
    retried = {name: at for at, name, attempt, _ in starts if attempt == 2}
    last_fresh = max(at for at, _, attempt, _ in starts if attempt == 1)
    return [
        start
        for start in starts
        if start[0] <= last_fresh and any(due[name] <= start[0] <= retried[name] for name in due)
    ]
