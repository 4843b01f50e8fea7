"""What workers measure by task, on every store, and the notes from which the last hour is read."""

import pytest

from mulligan import JobFailedError, Retry
from mulligan.app.hour import last_hour
from mulligan.core.counts import (
    FRESH_WAIT,
    OTHER,
    SUM,
    Count,
    FailureName,
    read_failure,
    read_runtime,
)
from mulligan.core.hour import NOTES
from mulligan.engine.bounded_counts import MOST_TASKS, MOST_TYPES, TaskTimes
from mulligan.engine.chores import MinuteKeeper, offset_of
from tests.engine.test_on_every_store import app, working

__all__ = ["app"]


async def test_runtimes_waits_and_failures_of_all_attempts_are_counted(app):
    @app.task(queue="q", retry=Retry(0))
    async def ask(wrong: str = "") -> None:
        if wrong:
            raise ConnectionError(wrong)

    async with working(app):
        jobs = [await ask.aenqueue(), await ask.aenqueue("yes")]
        await jobs[0].aresult()
        with pytest.raises(JobFailedError):
            await jobs[1].aresult()
    ever = (await app.access.acall(lambda store: store.counts())).ever
    names = {name: value for (queue, _, name), value in ever.items() if queue == "q"}
    ran = [(read_runtime(name), value) for name, value in names.items()]
    counted = [(name.task, name.outcome, value) for name, value in ran if name]
    assert {(*each,) for each in counted if each[2] == 1.0} == {
        ("ask", "succeeded", 1.0),
        ("ask", "failed", 1.0),
    }
    waits = {name: value for name, value in names.items() if name.startswith(FRESH_WAIT)}
    assert sum(value for name, value in waits.items() if name != FRESH_WAIT + SUM) == 2
    [failure] = [name for name in map(read_failure, names) if name]
    assert (failure.task, failure.type.rpartition(".")[2]) == ("ask", "ConnectionError")


def test_tasks_and_types_beyond_the_most_are_counted_together():
    times = TaskTimes()
    for number in range(MOST_TASKS + 2):
        times.ran("q", "US", f"task-{number}", "succeeded", 0.5)
    tasks = {found.task for each in times.take() if (found := read_runtime(each.name))}
    assert len(tasks) == MOST_TASKS + 1
    assert OTHER in tasks
    assert times.take() == []

    for number in range(MOST_TYPES):
        name = FailureName(f"Error{number}", "task-0").written
        assert times.bounded(name) == name
    beyond = FailureName("OneMore", "task-0").written
    assert times.bounded(beyond) == FailureName(OTHER, "task-0").written
    unknown = FailureName("Error0", "made-up").written
    assert times.bounded(unknown) == FailureName(OTHER, OTHER).written
    assert times.bounded("succeeded") == "succeeded"


async def test_a_minute_is_noted_once_and_the_hour_is_what_came_since(store):
    keeper = MinuteKeeper(store, 3.0)
    pause = await keeper.note()
    assert 3.0 < pause <= 63.0
    [(key, written)] = (await store.notes(NOTES)).items()
    ran = {"runtime.succeeded.0.5/ask": 4.0, f"runtime.succeeded.{SUM}/ask": 1.5}
    await store.count([Count("q", "US", name, value) for name, value in ran.items()])
    await keeper.note()
    assert (await store.notes(NOTES))[key] == written
    hour = await last_hour(store)
    [task] = hour.tasks()
    assert (task.task, task.queue, task.succeeded, task.runtime.p50) == ("ask", "q", 4, 0.375)
    assert sum(minute.succeeded for minute in hour.intervals()) == 4


async def test_a_store_in_which_nothing_was_noted_has_an_hour_of_nothing(store):
    hour = await last_hour(store)
    assert hour.tasks() == []
    assert [each.succeeded for each in hour.intervals()] == [0]


def test_processes_do_not_all_ask_at_once():
    offsets = {offset_of(f"host-{number}") for number in range(100)}
    assert len(offsets) > 50
    assert 0.0 <= min(offsets) <= max(offsets) < 10.0
