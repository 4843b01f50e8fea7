"""A trace says what became of jobs, and can be played again, under other policies too."""

import asyncio
import json

import pytest
from msgspec.structs import replace

import mulligan.sim.run
from mulligan import Delays, Fail, JobFailedError, Mulligan, Retry, current_job
from mulligan.app.worker import new_worker, work
from mulligan.cli.history import write
from mulligan.core.errors import InvalidError
from mulligan.core.fetch import Balanced
from mulligan.sim import load_scenario, read_scenario, simulate, with_policy
from mulligan.sim.scenario import Past
from mulligan.sim.store import Recorder
from tests.cli.command_line import do, good, good_json, new_job, refused, run
from tests.sim.kit import QUICK

WORK = """
[regions.EU]
workers = 2
[regions.US]
workers = 2
[[streams]]
id = "eu"
region = "EU"
rate = 2
until = 60
duration = {dist = "exponential", mean = 0.8}
fail_first = 0.3
[[streams]]
id = "us"
region = "US"
rate = 1.5
until = 60
duration = {dist = "exponential", mean = 0.8}
fail_first = 0.3
[[jobs]]
id = "hopeless"
region = "US"
at = 20
duration = 1
fail = "all"
"""


def traced_run(monkeypatch, capsys, tmp_path, scenario):
    """Simulate, and write the trace of the store that it ran on."""
    stores = []

    class Kept(Recorder):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            stores.append(self)

    monkeypatch.setattr(mulligan.sim.run, "Recorder", Kept)
    played = simulate(scenario)
    asyncio.run(write(stores[0], 1e6, None))
    trace = tmp_path / "trace.jsonl"
    trace.write_text(capsys.readouterr().out)
    return played, trace


def order(played):
    return [(a.job, a.number, a.region) for a in played.log.attempts]


def test_a_simulated_run_played_again_starts_everything_in_the_same_order(
    monkeypatch, capsys, tmp_path
):
    scenario = read_scenario("work.toml", "seed = 3" + QUICK.replace("none", "full") + WORK)
    first, trace = traced_run(monkeypatch, capsys, tmp_path, scenario)
    again = load_scenario(str(trace))
    # Workers leave at the end of a simulation, and the first line is to be put right.
    again = replace(again, regions=scenario.regions)
    replayed = simulate(again)
    assert order(replayed) == order(first)
    assert replayed.log.dead == first.log.dead == 1
    assert order(simulate(with_policy(again, "fifo"))) != order(first)


@pytest.fixture
def url(tmp_path):
    """A store in which a real worker has done some work and left."""
    return asyncio.run(worked(f"sqlite:///{tmp_path / 'jobs.db'}"))


async def worked(url):
    app = Mulligan(url)

    @app.task(retry=Retry(2, Delays((0.01,))))
    async def flaky() -> str:
        if current_job().attempt == 1:
            raise KeyError("x")
        return "secret"

    @app.task
    async def spoilt() -> None:
        raise Fail("spoilt")

    good_in_the_end = await flaky.using(id="flaky").aenqueue()
    bad_for_good = await spoilt.using(id="spoilt").aenqueue()
    engine = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, new_worker(app), engine.set_result))
    await asyncio.wait_for(good_in_the_end.aresult(), 60)
    with pytest.raises(JobFailedError):
        await asyncio.wait_for(bad_for_good.aresult(), 60)
    (await engine).stop()
    await running
    await flaky.using(id="waiting").aenqueue()
    app.close()
    return url


def test_the_lines_of_a_trace_tell_everything_but_arguments_and_results(url):
    header, *lines = map(json.loads, good("history", "--store", url).splitlines())
    assert header["trace"] == 1
    assert header["regions"] == {"default": {"workers": 1, "concurrency": 1}}
    flaky = next(line for line in lines if line["id"] == "flaky")
    assert flaky["status"] == "done"
    assert flaky["retry_count"] == 1
    assert flaky["retry"]["max_retries"] == 2
    [failure] = flaky["history"]
    assert (failure["number"], failure["region"], failure["type"]) == (1, "default", "KeyError")
    assert failure["delay"] == 0.01
    assert not {"args", "body", "result"} & set(flaky)
    assert {line["id"]: line["status"] for line in lines} == {
        "flaky": "done", "spoilt": "failed", "waiting": "pending",
    }  # fmt: skip


def test_who_writes_a_trace_is_told_where_no_worker_is_alive(url):
    assert "no worker of region 'default' is alive" in run("history", "--store", url).stderr


def test_jobs_of_a_region_that_never_had_a_worker_can_be_played(url, tmp_path):
    app = Mulligan(url)

    @app.task
    def far() -> None: ...

    far.using(region="MARS").enqueue()
    app.close()
    written = run("history", "--store", url)
    assert "no worker of region 'MARS' is alive" in written.stderr
    played = good_json("simulate", saved(tmp_path, written.stdout))["summary"]
    assert (played["jobs"], played["unfinished"]) == (4, 0)


def test_a_non_retryable_failure_stays_one_when_played_again(url, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(good("history", "--store", url))
    scenario = load_scenario(str(trace))
    assert scenario.queue.policy == Balanced()
    found = good_json("simulate", str(trace))["summary"]
    assert (found["done"], found["failed"], found["retries"]) == (2, 1, 1)
    runs = good_json("simulate", str(trace), "--policy", "fifo", "--policy", "retry-first")
    assert [each["policy"] for each in runs] == ["fifo", "retry-first"]


HEADER = {
    "trace": 1, "since": 0, "until": 9, "regions": {"US": {"workers": 1, "concurrency": 1}},
    "queues": {},
}  # fmt: skip
JOB = {
    "id": "a", "queue": "q", "task": "t", "region": "US", "status": "done",
    "created_at": 1.0, "arrived_at": 1.0, "started_at": 2.0, "ended_at": 5.0,
}  # fmt: skip
FAILED = {"number": 1, "region": "US", "started_at": 1.0, "ended_at": 1.5, "type": "E",
          "message": "", "delay": 0.5}  # fmt: skip


def saved(tmp_path, *lines):
    file = tmp_path / "trace.jsonl"
    file.write_text(
        "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    )
    return str(file)


@pytest.mark.parametrize(
    ("lines", "number", "said"),
    [
        ([], 1, "not the first line of a trace"),
        (["[regions.US]"], 1, "not the first line of a trace"),
        ([HEADER | {"trace": 2}], 1, "not the first line of a trace"),
        ([HEADER | {"regions": {}}], 1, "regions is empty"),
        ([HEADER | {"regions": {"US": {"workers": 0}}}], 1, "must be from 1 to 1000"),
        ([HEADER | {"regions": {"*": {}}}], 1, "region '*'"),
        ([HEADER | {"regions": {"US": {"slots": 3}}}], 1, "unknown field `slots`"),
        ([HEADER], 1, "no job"),
        ([HEADER, JOB, "{"], 3, "not a job of a trace"),
        ([HEADER, JOB, "", JOB], 4, "id 'a' is given twice"),
        ([HEADER, JOB | {"region": "MARS"}], 2, "region 'MARS' is not one of US"),
        ([HEADER, JOB, JOB | {"id": "b", "queue": "other"}], 3, "mulligan history --queue q"),
        ([HEADER, JOB | {"created_at": "x"}], 2, "Expected `float`"),
        ([HEADER, JOB | {"arrived_at": -1}], 2, "a time that is none"),
        ([HEADER, JOB | {"ended_at": 1.0}], 2, "ended before it began"),
        ([HEADER, JOB | {"priority": 7}], 2, "priority 7 must be 0, 1 or 2"),
        ([HEADER, JOB | {"retry": {"max_retries": -1}}], 2, "max_retries -1"),
        ([HEADER, JOB | {"status": "cancelled", "started_at": None}], 2, "no job"),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path, lines, number, said):
    told = refused(2, "simulate", saved(tmp_path, *lines))
    assert f"trace.jsonl:{number}: " in told
    assert said in told
    assert len(told.splitlines()) == 1


def course_of(tmp_path, **fields):
    return load_scenario(saved(tmp_path, HEADER, JOB | fields)).planned[0].course


def test_what_a_history_no_longer_has_went_like_what_came_after(tmp_path):
    second = FAILED | {"number": 2}
    assert course_of(tmp_path, retry_count=2, history=[FAILED, second]) == (
        Past(0.5, "retried", 0.5), Past(0.5, "retried", 0.5), Past(3.0, "done"),
    )  # fmt: skip
    assert len(course_of(tmp_path, retry_count=2, history=[FAILED])) == 3
    waiting = {"status": "pending", "started_at": None, "ended_at": None}
    assert course_of(tmp_path, retry_count=1, history=[FAILED], **waiting) == (
        Past(0.5, "retried", 0.5),
    )  # fmt: skip
    dead = FAILED | {"number": 1}
    dead.pop("delay")
    assert course_of(tmp_path, status="failed", history=[dead]) == (Past(0.5, "dead"),)


def test_a_trace_that_is_not_there_and_a_span_that_is_none(tmp_path):
    assert "No such file" in refused(2, "simulate", str(tmp_path / "none.jsonl"))
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    good("migrate", "--store", url)
    assert "is not a span of time" in refused(2, "history", "--store", url, "--since", "soon")
    with pytest.raises(InvalidError):
        load_scenario(str(tmp_path / "none.jsonl"))


def test_only_what_was_enqueued_or_ended_since_then_is_told(tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    good("migrate", "--store", url)
    do(url, lambda store: store.enqueue([new_job("a"), new_job("b", "other")]))
    said = good("history", "--store", url, "--queue", "mail").splitlines()
    assert [json.loads(line)["id"] for line in said[1:]] == ["a"]
    assert len(good("history", "--store", url, "--since", "0s").splitlines()) == 1
