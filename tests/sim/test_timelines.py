"""Timelines that must come out exactly, as built-in scenarios."""

import pytest
from msgspec.structs import replace

from mulligan.sim import load_scenario, simulate, summary, with_policy
from tests.sim.kit import happened, play_builtin, starts


def said(run) -> str:
    return ", ".join(f"{a.job} {a.started:g}" for a in run.log.attempts)


@pytest.mark.parametrize(
    ("policy", "expected", "saved"),
    [
        (
            "retry-first",
            "A-q1 0, A-q1 32, A-q2 62, A-q3 92, B-q1 122, B-q2 152, B-q3 182",
            150,
        ),
        (
            "fifo",
            "A-q1 0, A-q2 32, A-q3 62, B-q1 92, B-q2 122, B-q3 152, A-q1 182",
            -30,
        ),
    ],
)
def test_1_a_worker_that_holds_through_backoff(policy, expected, saved):
    run = play_builtin("timeline-1", policy)
    assert said(run) == expected
    assert summary(run)["time_saved"] == {"total": saved, "mean": saved, "retries": 1}


@pytest.mark.parametrize(("policy", "retried_at"), [("retry-first", 60), ("fifo", 180)])
def test_1_a_worker_that_does_not_hold(policy, retried_at):
    scenario = replace(load_scenario("timeline-1"), hold_through_backoff=False)
    run = simulate(with_policy(scenario, policy))
    assert starts(run, "A-q1") == [0, retried_at]
    assert starts(run, "A-q2") == [30]


def test_2_an_idle_region_takes_the_retry():
    run = play_builtin("timeline-2")
    first, second = [a for a in run.log.attempts if a.job == "A-q1"]
    assert (first.region, first.started, first.ended, first.ending) == ("US", 0, 30, "failed")
    assert (second.region, second.started, second.ended, second.ending) == ("EU", 32, 62, "done")
    assert summary(run)["cross_region_share"] == 1


def test_3_a_job_that_two_regions_fail_is_done_in_a_third():
    run = play_builtin("timeline-3")
    assert starts(run, "A-q1") == [0, 32, 66]
    assert happened(run, "A-q1")[-1] == (96, "done")
    assert [a.region for a in run.log.attempts if a.job == "A-q1"] == ["US", "EU", "ASIA"]


def test_4_three_retries_that_all_fail_end_as_a_dead_letter():
    run = play_builtin("timeline-4")
    assert starts(run) == [0, 32, 66, 104]
    assert happened(run, "A-q1")[-2:] == [(134, "fail"), (134, "dead")]
    assert (run.log.dead, run.ended_at) == (1, 134)


def test_5_sessions_pause_longer_after_each_burst_and_nothing_is_done():
    run = play_builtin("timeline-5")
    assert starts(run) == [
        *(0, 30, 65, 395, 425, 460, 1090, 1120, 1155),
        *(2385, 2415, 2450, 4880, 4910, 4945),
    ]
    assert not [event for event in run.log.events if event.event in ("done", "dead")]
    assert summary(run)["unfinished"] == 1


def test_6_weighted_keeps_fresh_work_at_its_share_in_every_prefix():
    run = play_builtin("timeline-6")
    attempts = run.log.attempts
    retries = [a for a in attempts if a.is_retry]
    last_fresh = max(a.started for a in attempts if not a.is_retry)
    both = [
        a
        for a in attempts
        if a.started <= last_fresh and any(r.due <= a.started <= r.started for r in retries)
    ]
    assert len(both) > 300
    fresh = 0
    for count, attempt in enumerate(both, 1):
        fresh += not attempt.is_retry
        assert abs(fresh - 0.8 * count) <= 1
    figures = summary(run)
    assert figures["done"] == figures["jobs"] == 500
    assert figures["largest_retry_backlog"] <= 100
