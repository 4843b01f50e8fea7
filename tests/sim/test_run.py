"""Runs: the same every time, in a known order, with crashes, outages and chance."""

import os
import subprocess
import sys
from statistics import mean

import pytest

from mulligan.core.settings import Settings
from mulligan.sim import builtin_names, load_scenario, run, simulate, store
from mulligan.sim.scenario import arrivals
from mulligan.sim.scenario_file import read_scenario
from tests.sim.kit import QUICK, happened, play, play_builtin, starts

ONE_REGION = f'{QUICK}\n[fetch]\npolicy = "retry-first"\n[regions.US]\n'


def in_a_process(hash_seed: str, *arguments: str) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "mulligan", "simulate", *arguments, "--json"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    "name", ["poison-job", pytest.param("slow-region", marks=pytest.mark.prove)]
)
def test_the_same_seed_gives_the_same_bytes_in_any_process(name):
    first = in_a_process("1", name)
    assert first == in_a_process("2", name)
    assert first != in_a_process("1", name, "--seed", "2")


@pytest.mark.prove
@pytest.mark.parametrize("name", builtin_names())
def test_chores_that_sleep_change_nothing(name):
    scenario = load_scenario(name)
    if name == "retry-storm":
        scenario = read_scenario(name, ONE_REGION + STREAM.replace("until = 600", "until = 60"))
    lazy, eager = simulate(scenario), simulate(scenario, sleepy=False)
    assert list(lazy.log.events) == list(eager.log.events)


def test_jobs_that_have_ended_are_forgotten(monkeypatch):
    monkeypatch.setattr(store, "BATCH_LIMIT", 50)
    monkeypatch.setattr(run, "Simulation", Kept)
    text = STREAM.replace("rate = 5.0", "rate = 0.5")
    seen = play(f"{ONE_REGION}workers = 4\n{text}")
    kept = Kept.last
    assert seen.jobs == seen.log.done > 200
    assert kept.arrived == {}
    assert kept.most < 20
    assert len(kept.stored) < 150


class Kept(run.Simulation):
    """A simulation that shows what it keeps of its jobs."""

    last: "Kept"

    def __init__(self, *given):
        super().__init__(*given)
        self.arrived, self.most, self.stored = self._jobs, 0, {}
        Kept.last = self

    async def _feed(self, store):
        self.stored = store.state.jobs
        await super()._feed(store)

    def _job_ended(self, job):
        self.most = max(self.most, len(self.arrived))
        super()._job_ended(job)


STREAM = """
[[streams]]
id = "eu"
region = "US"
rate = 5.0
until = 600
duration = {dist = "lognormal", mean = 2, sigma = 0.5}
fail_first = 0.3
"""


def test_a_stream_has_about_its_rate_its_durations_and_its_failures():
    jobs = arrivals(read_scenario("test.toml", ONE_REGION + STREAM))
    assert len(jobs) == pytest.approx(3000, rel=0.1)
    assert mean(job.duration for job in jobs) == pytest.approx(2, rel=0.05)
    assert mean(bool(job.fail) for job in jobs) == pytest.approx(0.3, abs=0.03)
    assert [job.at for job in jobs] == sorted(job.at for job in jobs)
    assert len({job.id for job in jobs}) == len(jobs)


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ('{dist = "exponential", mean = 2}', 2),
        ('{dist = "uniform", min = 1, max = 3}', 2),
        ("1.5", 1.5),
    ],
)
def test_other_durations(duration, expected):
    text = STREAM.replace('{dist = "lognormal", mean = 2, sigma = 0.5}', duration)
    jobs = arrivals(read_scenario("test.toml", ONE_REGION + text))
    assert mean(job.duration for job in jobs) == pytest.approx(expected, rel=0.06)


def test_policies_are_given_the_same_work():
    fifo, balanced = play_builtin("slow-region", "fifo"), play_builtin("slow-region", "balanced")
    assert {a.job for a in fifo.log.attempts} == {a.job for a in balanced.log.attempts}
    first = [{a.job: a.due for a in run.log.attempts if a.number == 1} for run in (fifo, balanced)]
    assert first[0] == first[1]


CRASH = """
[[jobs]]
id = "a"
region = "US"
duration = 28
crash = [1]

[[jobs]]
id = "b"
region = "US"
duration = 30
"""


def test_a_worker_that_dies_loses_its_attempt_and_a_new_one_goes_on():
    run = play(ONE_REGION + CRASH)
    lost, other, retry = run.log.attempts
    assert (lost.job, lost.ending, lost.ended, lost.worker) == ("a", "crashed", 14, "US-1")
    assert (other.job, other.started, other.worker) == ("b", 14, "US-1.2")
    assert (retry.number, retry.ending) == (2, "done")
    events = happened(run, "a")
    assert [name for _, name in events] == ["start", "reclaimed", "retry-due", "start", "done"]
    expires = 2 * Settings().beat + Settings().lease  # it beat at 0, 5 and 10, and died at 14
    reclaimed = events[1][0]
    assert expires <= reclaimed <= expires + 1
    assert events[2][0] == reclaimed


def test_a_crash_loop_ends_at_max_retries():
    run = play(ONE_REGION + CRASH.replace("crash = [1]", 'crash = "all"'))
    names = [name for _, name in happened(run, "a")]
    assert names == ["start", "reclaimed", "retry-due"] * 3 + ["start", "reclaimed", "dead"]
    assert [a.number for a in run.log.attempts if a.job == "a"] == [1, 2, 3, 4]


def test_all_slots_of_a_worker_die_with_it():
    text = f"{QUICK}\n[regions.US]\nconcurrency = 2\n{CRASH}"
    run = play(text)
    assert [a.ending for a in run.log.attempts] == ["crashed", "crashed", "done", "done"]
    assert run.log.reclaims == 2


def test_every_attempt_that_starts_in_an_outage_fails():
    run = play(f"{ONE_REGION}outage = [[10, 20], [40, 60]]\n{JOBS}")
    for attempt in run.log.attempts:
        down = 10 <= attempt.started < 20 or 40 <= attempt.started < 60
        assert attempt.ending == ("failed" if down else "done")
    assert any(a.ending == "failed" for a in run.log.attempts)


JOBS = """
[[jobs]]
id = "a"
count = 12
region = "US"
duration = 4
"""


def test_a_failure_rate_of_one_fails_all_and_slowdown_stretches():
    run = play(f"{ONE_REGION}failure_rate = 1.0\nslowdown = 2.5\n{JOBS}")
    assert run.log.done == 0
    assert run.log.dead == 12
    assert {a.ended - a.started for a in run.log.attempts} == {10}


def test_what_ends_at_one_time_ends_in_the_order_of_regions():
    entries = "".join(
        f'[[jobs]]\nid = "{name}"\nregion = "{name}"\nduration = {30 - at}\nat = {at}\n'
        for name, at in [("ASIA", 0), ("EU", 5), ("US", 10)]
    )
    run = play(f"[regions.US]\n[regions.EU]\n[regions.ASIA]\n{entries}")
    ended = [event.job for event in run.log.events if event.event == "done"]
    assert ended == ["US", "EU", "ASIA"]


def test_of_several_idle_workers_the_first_by_region_takes_the_job():
    anywhere = '[[jobs]]\nid = "x"\ncount = 3\nregion = "*"\nat = 7\nduration = 10\n'
    run = play(f"[regions.EU]\n[regions.US]\n[regions.ASIA]\n{anywhere}")
    assert [a.region for a in run.log.attempts] == ["EU", "US", "ASIA"]
    assert starts(run) == [7, 7, 7]


def test_retries_of_scope_region_stay_at_home():
    text = f'{QUICK}scope = "region"\n[regions.US]\n[regions.EU]\n{JOBS}fail = [1]\n'
    run = play(text)
    assert {a.region for a in run.log.attempts} == {"US"}
    assert {a.lane for a in run.log.attempts if a.is_retry} == {"region-retry"}


def test_a_budget_holds_in_every_window():
    text = f"{ONE_REGION}workers = 4\n[budget]\nlimit = 3\nper = 20\n{JOBS}fail = [1]\n"
    times = [a.started for a in play(text).log.attempts if a.is_retry]
    assert len(times) == 12
    assert all(later - sooner >= 20 for sooner, later in zip(times, times[3:], strict=False))


def test_a_run_that_is_cut_off_counts_what_is_unfinished():
    run = play(f"until = 10\n{ONE_REGION}{JOBS}")
    assert run.ended_at == 10
    assert run.log.done == 2
    assert [a.ending for a in run.log.attempts] == ["done", "done", "running"]


def test_urgent_jobs_go_first():
    urgent = '[[jobs]]\nid = "u"\nregion = "US"\nat = 1\nduration = 1\npriority = "urgent"\n'
    run = play(ONE_REGION + JOBS + urgent)
    assert starts(run, "u") == [4]


def test_progress_is_told():
    told: list[tuple[int, int]] = []
    play(
        ONE_REGION + JOBS.replace("12", "1200").replace("4", "0.01"),
        progress=lambda *n: told.append(n),
    )
    assert told == [(500, 1200), (1000, 1200)]


def test_ctrl_c_ends_a_simulation_without_a_word():
    code = (
        "import signal; from mulligan.sim import load_scenario, run\n"
        "run.PROGRESS_EVERY = 1\n"
        "try: run.simulate(load_scenario('timeline-6'), lambda *_: signal.raise_signal(2))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("interrupted\n", "")


BY_CLASS = """
[retry]
max_retries = 3
jitter = "none"
on = ["ConnectionError", "httpx.ReadTimeout"]
never = "ConnectionRefusedError"
[regions.US]
[[jobs]]
id = "a"
duration = 1
fail = [1]
"""


@pytest.mark.parametrize("breaker", [True, False])
@pytest.mark.parametrize(
    ("error", "ended"),
    [
        ("ConnectionResetError", "done"),  # by its base
        ("httpx.ReadTimeout", "done"),  # by its name
        ("ConnectionRefusedError", "dead"),
        ("httpx.ConnectError", "dead"),
        ("ValueError", "dead"),
        ("UnicodeDecodeError", "dead"),  # which takes more than a message
        ("print", "dead"),
        (None, "dead"),
    ],
)
def test_which_failures_are_retried_is_said_by_class(error, ended, breaker):
    said = "" if error is None else f'error = "{error}"\n'
    run = play(f"breaker = {str(breaker).lower()}\n{BY_CLASS}{said}")
    assert happened(run, "a")[-1][1] == ended


def test_an_entry_may_have_classes_of_its_own():
    run = play(f'{BY_CLASS}error = "ValueError"\nretry = {{on = "ValueError", never = []}}\n')
    assert happened(run, "a")[-1][1] == "done"


def test_what_fails_in_a_region_has_the_class_of_the_region():
    outage = 'outage = [[0, 1]]\nerror = "{}"\n[[jobs]]'
    for error, ended in (("ConnectionError", "done"), ("ValueError", "dead")):
        text = BY_CLASS.replace("[[jobs]]", outage.format(error)).replace("fail = [1]", "")
        assert happened(play(text), "a")[-1][1] == ended
