"""Commands that look: status, job, jobs, explain, settings."""

import json
import signal

import click
import msgspec
import pytest

from mulligan.cli.settings import (
    FLEET_MEANINGS,
    LIMITS,
    MEANINGS,
    QUEUE_MEANINGS,
    RETRY_MEANINGS,
)
from mulligan.cli.show import moment
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Separate
from mulligan.core.settings import Settings
from mulligan.core.worker import Worker
from tests.cli.command_line import (
    APP,
    claim,
    configure,
    do,
    fail,
    finish,
    good,
    good_json,
    new_job,
    process,
    read_until,
    run,
)
from tests.cli.test_help import commands

TRACEBACK = (
    'Traceback:\n  File "mail.py", line 7, in send\n    connect("\x1b[31m")\nOSError: away\n'
)


@pytest.fixture
def busy(store):
    """A store with jobs in every state."""

    async def fill(store):
        await store.enqueue([new_job(name) for name in ("dead", "done", "again", "runs", "waits")])
        await fail(store, await claim(store, 1), "no such [red]address\x1b[31m", TRACEBACK)
        await finish(store, await claim(store, 1))
        await fail(store, await claim(store, 1), "the network timed out", non_retryable=False)
        await claim(store, 1)
        await store.enqueue([new_job("later", delay=1000), new_job("eu", region="EU")])
        await store.pause("mail", paused=True)

    do(store, fill)
    return store


def test_status_tells_queues_regions_and_workers(busy):
    said = good("status", APP)
    for word in ("mail", "balanced, paused", "Global retry queue: 0", "w-1", "default", "runs"):
        assert word in said


@pytest.mark.parametrize("command", [("jobs",), ("dead", "list"), ("status",), ("workers",)])
def test_an_app_may_be_named_as_an_argument_or_by_its_option(busy, command):
    assert good_json(*command, "-a", APP).keys() == good_json(*command, APP).keys()


def test_a_task_is_enqueued_whichever_way_the_app_is_named(store):
    ways = [(APP, "add", "1", "2"), ("-a", APP, "add", "1", "2"), ("add", "-a", APP, "1", "2")]
    for way in ways:
        assert good_json("enqueue", *way)["task"] == "add"
    assert good_json("enqueue", "add", "1", "2", MULLIGAN_APP=APP)["task"] == "add"


def test_status_as_json_has_the_shape_of_the_api(busy):
    whole = good_json("status", "--app", APP)
    assert whole["regions"]["*"] == {
        "queue_size": 1,
        "retry_queue_size": 0,
        "processing": False,
        "current_job": None,
    }
    assert whole["regions"]["default"] == {
        "queue_size": 0,
        "retry_queue_size": 0,
        "processing": True,
        "current_job": {"job_id": "runs", "retry_count": 0},
    }
    assert whole["regions"]["EU"]["queue_size"] == 1
    assert whole["queues"]["mail"]["failed"] == 1
    assert whole["delayed"]["mail"]["total"] == 2
    assert whole["workers"][0]["live"]


def test_status_of_an_empty_store_says_so(store):
    said = good("status", APP)
    assert "No queue" in said
    assert "mulligan worker APP" in said


def test_status_warns_of_a_separate_queue_with_one_kind_of_worker(store):
    do(store, lambda s: configure(s, "mail", QueueSettings(Separate())))
    do(store, lambda s: s.beat(Worker("w", queues=("mail",), only="fresh"), []))
    assert "! queue mail has policy separate" in good("status", APP)
    assert len(good_json("status", APP)["warnings"]) == 1
    do(store, lambda s: s.beat(Worker("v", queues=("mail",), only="retries"), []))
    assert "separate and no live" not in good("status", APP)


def test_status_watches_until_it_is_interrupted(url):
    good("migrate", "--store", url)
    with process("status", "--store", url, "--watch", "--json", "--every", "0.1") as watch:
        assert watch.stdout is not None
        first, second = watch.stdout.readline(), watch.stdout.readline()
        assert json.loads(first)["now"] < json.loads(second)["now"]
        watch.send_signal(signal.SIGINT)
        assert watch.wait() == 0


def test_status_watches_in_tables_too(url):
    good("migrate", "--store", url)
    with process("status", "--store", url, "--watch", "--every", "0.1") as watch:
        read_until(watch, "Global retry queue")
        watch.send_signal(signal.SIGINT)
        assert watch.wait() == 0


def test_job_tells_everything(busy):
    said = good("job", "again", "-a", APP)
    for word in ("pending", "retry_count 1", '["again"]', "History", "ValueError: the network"):
        assert word in said
    said = good("job", "done", "-a", APP)
    assert "result" in said
    assert "succeeded" in said.partition("History")[2]


def test_limits_of_a_job_are_an_object(store):
    do(store, lambda opened: opened.enqueue([new_job("a", limits='{"openai":2}'), new_job("b")]))
    assert good_json("job", "a", "-a", APP)["limits"] == {"openai": 2}
    assert {each["id"]: each["limits"] for each in good_json("jobs", APP)["jobs"]} == {
        "a": {"openai": 2},
        "b": {},
    }


# They run until they are stopped, or their answer is lines of JSON already.
NO_ANSWER = {"demo", "dev", "worker", "serve", "housekeep", "top", "history"}


def test_every_command_that_answers_has_json():
    without = {
        name
        for name, command in commands()
        if not isinstance(command, click.Group)
        and not any("--json" in option.opts for option in command.params)
    }
    assert without == NO_ANSWER


@pytest.mark.parametrize(
    "command",
    [
        ["status"], ["queues"], ["workers"], ["tasks"], ["metrics"], ["jobs"], ["job", "done"],
        ["explain", "done"], ["dead", "list"], ["limits", "list"], ["schedules", "list"],
        ["doctor"], ["settings"], ["fairness", "mail"], ["migrate"], ["pause", "mail"],
        ["resume", "mail"], ["limits", "set", "k", "--concurrency", "5"], ["cancel", "again"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_answer_is_an_object(busy, command):
    named = ["-a", APP] if "migrate" not in command else [APP]
    assert isinstance(good_json(*command, *named), dict)


def test_what_jobs_say_cannot_take_over_the_terminal(busy):
    said = good("job", "dead", "-a", APP)
    assert "\x1b" not in said
    assert "no such [red]address\\x1b[31m" in said


@pytest.mark.parametrize("at", [1e300, -1e300, float("inf"), float("nan")])
def test_a_time_that_no_calendar_has_is_told_as_a_number(at):
    assert moment(at) == f"{at:g} s after 1970"


def test_job_as_json_has_its_body_decoded(busy):
    job = good_json("job", "again", "-a", APP)
    assert job["body"]["args"] == ["again"]
    assert job["history"][0]["message"] == "the network timed out"
    assert job["history"][0]["number"] == 1
    assert job["lane"] == "global-retry"
    assert good_json("job", "done", "-a", APP)["result"] == "ok"


def test_jobs_lists_what_is_selected(busy):
    def ids(*arguments):
        return {job["id"] for job in good_json("jobs", "-a", APP, *arguments)["jobs"]}

    assert len(ids()) == 7
    assert ids("--status", "failed") == {"dead"}
    assert ids("--text", "timed out") == {"again"}
    assert ids("--region", "EU") == {"eu"}
    assert ids("--task", "nothing") == set()
    assert ids("--queue", "mail", "--status", "done") == {"done"}
    assert "No job matches." in good("jobs", "-a", APP, "--task", "nothing")


def test_jobs_goes_on_where_it_left_off(busy):
    seen, after = [], None
    while True:
        page = good_json("jobs", "-a", APP, "-n", "3", *(("--after", after) if after else ()))
        seen += [job["id"] for job in page["jobs"]]
        after = page["after"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 7
    assert "go on with: --after" in good("jobs", "-a", APP, "-n", "3")


def test_explain_is_one_sentence(busy):
    assert "queue mail is paused" in good("explain", "waits", "-a", APP)
    assert good_json("explain", "dead", "-a", APP)["explanation"].startswith("Failed for good")


def test_settings_names_every_default_with_its_meaning(store):
    assert set(MEANINGS) == set(Settings.__struct_fields__)
    assert set(QUEUE_MEANINGS) == set(QueueSettings.__struct_fields__)
    entries = good_json("settings")["settings"]
    every = {*MEANINGS, *RETRY_MEANINGS, *QUEUE_MEANINGS, *FLEET_MEANINGS, *LIMITS}
    assert {each["name"] for each in entries} == every
    values = {each["name"]: each["value"] for each in entries}
    assert values["lease"] == 15
    assert values["policy"] == "balanced"
    assert values["SNOOZE_LIMIT"] == 100
    assert all(each["meaning"] for each in entries)


def test_settings_of_an_app_are_its_own(store):
    values = {
        e["name"]: e["value"] for e in good_json("settings", "tests.cli.apps:filed")["settings"]
    }
    assert values["lease"] == 4
    assert "1" in good("settings", "--app", "tests.cli.apps:filed")


def test_the_version_is_told():
    assert run("--version").output.startswith("mulligan 0.")


def test_json_is_json_for_every_command_that_offers_it(busy):
    for arguments in (
        ("status", APP), ("jobs", "-a", APP), ("job", "dead", "-a", APP), ("settings",),
        ("explain", "dead", "-a", APP), ("dead", "list", "-a", APP), ("doctor", APP),
        ("enqueue", APP, "add", "1", "2"), ("cancel", "waits", "-a", APP),
        ("dead", "replay", "dead", "-a", APP), ("dead", "purge", "-a", APP),
    ):  # fmt: skip
        assert isinstance(msgspec.json.decode(run(*arguments, "--json").stdout), dict), arguments


@pytest.mark.usefixtures("busy")
def test_a_job_shows_the_traceback_of_its_last_failure():
    said = good("job", "dead", "-a", APP)
    at = said.index("Traceback of attempt 1\n")
    assert '    File "mail.py", line 7, in send\n' in said[at:]
    assert '      connect("\\x1b[31m")\n' in said[at:]
    assert said[at:].rstrip().endswith("OSError: away")
    assert good_json("job", "dead", "-a", APP)["history"][0]["traceback"] == TRACEBACK
    assert "Traceback" not in good("job", "again", "-a", APP)


@pytest.mark.usefixtures("busy")
def test_dead_letters_are_listed_with_their_tracebacks_if_asked():
    said = good("dead", "list", "--traces", "-a", APP)
    assert "Traceback of attempt 1 of job dead\n" in said
    assert "OSError: away" in said
    assert "OSError: away" not in good("dead", "list", "-a", APP)
    [job] = good_json("dead", "list", "--traces", "-a", APP)["jobs"]
    assert job["traceback"] == TRACEBACK
    assert "traceback" not in good_json("dead", "list", "-a", APP)["jobs"][0]
