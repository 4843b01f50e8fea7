"""What jobs record, as commands show it: `job`, `watch`, `dead replay --from-start`."""

import json

import pytest

from mulligan.cli.watch import RecordNews
from mulligan.core.outcome import Done
from mulligan.core.record import (
    LogLine,
    Progress,
    Record,
    Recording,
    Records,
    Step,
    line_value,
    progress_value,
)
from mulligan.core.settings import LINE_LIMIT
from tests.cli.command_line import claim, do, fail, gone, good, new_job, run
from tests.server.process import server

STEPS = (
    Record("step", 1, b'{"order":7}', "charge"),
    Record("step", 2, b'"' + b"x" * 3000 + b'"', "download"),
    Record("log", 3, b'"charged \\u001b[31mred"'),
    Record("progress", 4, b'{"done":40,"of":100,"note":"resizing"}'),
    Record("checkpoint", 5, b'{"row":40}'),
)
WORDY = (
    Record("log", 1, line_value("x" * LINE_LIMIT)),
    Record("progress", 2, progress_value(1, 2, "y" * LINE_LIMIT)),
)


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


async def recorded(opened, *, ends="runs", records=STEPS):
    await opened.enqueue([new_job("long")])
    [held] = await claim(opened, 1)
    await opened.record([Recording(held.lease, records)])
    if ends == "done":
        await opened.commit([Done(held.lease, b"1")])
    elif ends == "failed":
        await fail(opened, [held])


def test_job_shows_steps_progress_log_and_checkpoint(store):
    do(store, recorded)
    shown = good("job", "long", "--store", store)
    for words in ("charge", '{"order":7}', "(3002 bytes)", "40%", "40 of 100", "resizing"):
        assert words in shown, words
    assert 'Checkpoint  {"row":40}' in shown
    assert "charged" in shown
    assert "\x1b[31m" not in shown


def test_job_as_json_has_them_as_fields(store):
    do(store, recorded)
    shown = json.loads(good("job", "long", "--store", store, "--json"))
    assert [(each["name"], each["size"]) for each in shown["steps"]] == [
        ("charge", 11),
        ("download", 3002),
    ]
    assert shown["steps"][0]["result"] == {"order": 7}
    assert "result" not in shown["steps"][1]
    assert (shown["progress"]["done"], shown["checkpoint"]["value"]) == (40, {"row": 40})
    assert [line["text"] for line in shown["log"]] == ["charged \x1b[31mred"]


def test_long_lines_and_notes_are_shown_whole(store):
    do(store, lambda opened: recorded(opened, ends="done", records=WORDY))
    shown = json.loads(good("job", "long", "--store", store, "--json"))
    assert [line["text"] for line in shown["log"]] == ["x" * LINE_LIMIT]
    assert shown["progress"]["note"] == "y" * LINE_LIMIT
    assert "UNSET" not in good("job", "long", "--store", store)
    news = good("watch", "long", "--store", store, "--json")
    assert "x" * LINE_LIMIT in news
    assert "y" * LINE_LIMIT in news


def test_a_job_that_recorded_nothing_shows_nothing_of_it(store):
    async def plain(opened):
        await opened.enqueue([new_job("short")])

    do(store, plain)
    shown = good("job", "short", "--store", store)
    assert not any(words in shown for words in ("Progress", "Steps", "Log", "Checkpoint"))
    assert "steps" not in json.loads(good("job", "short", "--store", store, "--json"))


@pytest.mark.parametrize("as_json", [False, True])
def test_watch_tells_what_was_recorded(store, as_json):
    do(store, lambda opened: recorded(opened, ends="done"))
    shown = good("watch", "long", "--store", store, *(["--json"] if as_json else []))
    if not as_json:
        assert "step        charge" in shown
        assert "progress    [########............] 40%  40 of 100  resizing" in shown
        assert "log         charged" in shown
        return
    lines = [json.loads(line) for line in shown.splitlines()]
    told = [next(iter(line.keys() - {"id"})) for line in lines if "status" not in line]
    assert sorted(told) == ["log", "progress", "step", "step"]
    assert lines[-1]["status"] == "done"


def test_watch_through_a_server_tells_the_same(store):
    do(store, lambda opened: recorded(opened, ends="done"))
    with server("--store", store) as (address, _):
        shown = run("watch", "long", "--store", address).stdout
    assert "step        charge" in shown
    assert "log         charged" in shown


def test_watch_tells_each_record_once():
    news = RecordNews()
    lines = [LogLine(float(n), f"line {n % 2}") for n in range(4)]
    steps = [Step("a", 1.5, 1), Step("b", 2.5, 1)]
    first = news.of(Records(steps[:1], Progress(1, at=0.5), lines[:2]))
    assert first == [lines[0], Progress(1, at=0.5), lines[1], steps[0]]
    assert news.of(Records(steps[:1], Progress(1, at=0.5), lines[:2])) == []
    assert news.of(Records(steps, Progress(2, at=3.5), lines[1:])) == [
        lines[2],
        steps[1],
        lines[3],
        Progress(2, at=3.5),
    ]


@pytest.mark.parametrize("from_start", [False, True])
def test_dead_replay_keeps_records_unless_from_start(store, from_start):
    do(store, lambda opened: recorded(opened, ends="failed"))
    options = ["--from-start"] if from_start else []
    assert "Replayed 1 of 1" in good("dead", "replay", "long", "--store", store, *options)
    kinds = {each.kind for each in do(store, lambda opened: opened.records("long"))}
    assert kinds == ({"log"} if from_start else {"step", "log", "progress", "checkpoint"})


def test_copy_takes_records_along(store, tmp_path):
    do(store, lambda opened: recorded(opened, ends="failed"))
    do(store, gone)
    target = f"sqlite:///{tmp_path}/other.db"
    good("copy", store, target, "--yes")
    there = do(target, lambda opened: opened.records("long"))
    assert [each.kind for each in there] == [each.kind for each in STEPS]
