"""Which ticks of a schedule are placed and withdrawn, and when."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from mulligan.core import ticks
from mulligan.core.errors import InvalidError
from mulligan.core.job import NewJob
from mulligan.core.known_tasks import Registration
from mulligan.core.schedule import (
    Schedule,
    Stored,
    body_of,
    check_catch_up,
    check_template,
    check_timing,
    read_schedules,
    record_of,
    template,
    tick_id,
)
from mulligan.core.schedule_view import options_of, problem_of, problems, view_of
from mulligan.core.ticks import (
    KEEP_UNDECLARED,
    LATE,
    MOST_MISSED,
    PLACED_AT_ONCE,
    declare,
    look_again_in,
    pause,
    put,
    remove,
    resume,
    undeclared,
)
from mulligan.core.timing import Cron, ticks_after
from tests.core.strategies import steady

HOUR = 3600.0
BODY = b'{"task":"report","args":[7],"kwargs":{"kind":"long"}}'
JOB = NewJob("x", "default", "report", BODY)
NEW = Schedule("acme", *template(JOB), every=HOUR)


def tick(stored: Stored, now: float) -> Any:
    """What is to be placed now; None if nothing is."""
    return ticks.tick(stored, now)


def applied(change):
    """What is stored when the change was carried out."""
    [stored] = read_schedules({change.name: change.after}).values()
    return stored


def begun(now=5000.0, **more):
    """A schedule that was put then, and its change."""
    change = put(None, replace(NEW, **more), now)
    return applied(change), change


def placed(change):
    """The times of day of what a change places, and those that it withdraws."""
    said = lambda name: name.partition("T")[2].removesuffix("Z")  # noqa: E731
    return [said(job.id) for job in change.place], [said(each) for each in change.withdraw]


def dues(change, now):
    return [now + job.delay for job in change.place]


def test_a_new_schedule_begins_with_its_next_tick():
    stored, change = begun()
    assert placed(change) == (["02:00:00"], [])
    assert dues(change, 5000.0) == [7200.0]
    assert change.edit
    assert stored.schedule.next_tick(5000.0) == 7200.0
    assert stored.schedule.last_tick(5000.0) is None


def test_before_a_tick_there_is_nothing_to_do_and_at_it_the_next_is_placed():
    stored, _ = begun()
    assert tick(stored, 7199.999) is None
    change = tick(stored, 7200.0)
    assert placed(change) == (["03:00:00"], [])
    after = applied(change)
    assert not change.edit
    assert (after.schedule.ticks, after.schedule.last) == (1, 7200.0)
    assert tick(after, 7200.0) is None


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("one", (["05:00:00", "06:00:00"], ["02:00:00"])),
        ("none", (["06:00:00"], ["02:00:00"])),
        ("all", (["03:00:00", "04:00:00", "05:00:00", "06:00:00"], [])),
    ],
)
def test_missed_ticks_by_the_rule(catch_up, expected):
    stored, _ = begun(catch_up=catch_up)
    assert placed(tick(stored, 5 * HOUR + 100)) == expected


def test_a_tick_that_is_only_late_runs_whatever_the_rule():
    stored, _ = begun(catch_up="none")
    assert placed(tick(stored, 7200.0 + LATE)) == (["03:00:00"], [])
    assert placed(tick(stored, 7201.0 + LATE)) == (["03:00:00"], ["02:00:00"])
    alone, _ = begun()
    assert placed(tick(alone, 7201.0 + LATE)) == (["03:00:00"], [])


def test_at_most_a_thousand_missed_ticks_are_made_up_for_the_newest_ones():
    stored, _ = begun(catch_up="all", every=1.0)
    now, all_ = 5000.0 + 2500, []
    while (change := tick(stored, now)) is not None:
        assert len(change.place) <= PLACED_AT_ONCE
        all_ += [job.id for job in change.place]
        stored = applied(change)
    assert len(all_) == len(set(all_)) == MOST_MISSED + 1
    assert all_[0] == tick_id("acme", now - MOST_MISSED + 1)
    assert all_[-1] == tick_id("acme", now + 1)
    assert stored.schedule.ticks == MOST_MISSED + 1  # with the one that lay ready


def test_large_bodies_are_placed_a_few_at_a_time():
    large = Raw(b'{"task":"report","args":["%b"],"kwargs":{}}' % (b"x" * (1 << 20)))
    stored = applied(put(None, replace(NEW, catch_up="all", body=large), 5000.0))
    assert len(tick(stored, 50 * HOUR).place) == 3


def test_a_clock_that_was_put_back_by_a_moment_places_no_tick_again():
    stored = applied(tick(begun()[0], 7200.0))
    assert tick(stored, 7199.0) is None
    assert tick(stored, 7200.0) is None


def test_a_clock_that_was_far_ahead_and_was_set_back_does_not_silence_the_schedule():
    stored = applied(tick(begun()[0], 5000.0 + 86_400))
    change = tick(stored, 5000.0)
    assert placed(change) == (["02:00:00"], ["02:00:00"])
    assert change.withdraw == ("acme@1970-01-02T02:00:00Z",)
    assert tick(applied(change), 5000.0) is None


def test_an_edit_replaces_the_tick_that_is_placed():
    stored, _ = begun()
    change = put(stored, replace(NEW, every=None, cron="30 1 * * *", timezone="UTC"), 5000.0)
    assert placed(change) == (["01:30:00"], ["02:00:00"])
    args = put(stored, replace(NEW, body=Raw(BODY.replace(b"7", b"8"))), 5000.0)
    assert placed(args) == (["02:00:00"], ["02:00:00"])
    assert b"8" in args.place[0].body


def test_an_edit_leaves_a_tick_that_has_come_due():
    stored, _ = begun()
    change = put(stored, replace(NEW, every=60.0), 7200.0)
    assert placed(change) == (["02:01:00"], [])
    assert applied(change).schedule.ticks == 1


def test_an_edit_that_keeps_the_timing_forgets_no_missed_tick():
    stored, _ = begun(catch_up="all")
    change = put(stored, replace(NEW, catch_up="all", body=Raw(b"{}")), 4 * HOUR)
    assert placed(change) == (["03:00:00", "04:00:00", "05:00:00"], [])


def test_a_paused_schedule_does_not_tick_and_makes_up_for_nothing():
    stored, _ = begun(catch_up="all")
    change = pause(stored, 5000.0)
    assert placed(change) == ([], ["02:00:00"])
    paused = applied(change)
    assert pause(paused, 5000.0) is None
    assert tick(paused, 9 * HOUR) is None
    assert look_again_in(paused.schedule, 5000.0, 0.0) is None
    assert paused.schedule.next_tick(5000.0) is None
    assert placed(put(paused, NEW, 6000.0)) == ([], [])
    resumed = resume(paused, 9 * HOUR)
    assert placed(resumed) == (["10:00:00"], [])
    assert resume(applied(resumed), 9 * HOUR) is None


def test_removing_withdraws_the_tick_that_is_placed_and_not_one_that_came_due():
    stored, _ = begun()
    assert (remove(stored, 5000.0).withdraw, remove(stored, 5000.0).after) == (
        ("acme@1970-01-01T02:00:00Z",),
        None,
    )
    assert remove(stored, 7200.0).withdraw == ()


def test_a_declared_schedule_is_stored_once_and_changed_when_it_is_another():
    new = replace(NEW, declared=True)
    stored = applied(declare(None, new, 5000.0))
    assert declare(stored, new, 6000.0) is None
    assert placed(declare(stored, replace(new, every=1800.0), 5000.0)) == (
        ["01:30:00"],
        ["02:00:00"],
    )
    assert declare(begun()[0], new, 5000.0) is None  # a stored one has its name


def test_what_nobody_declares_does_not_tick_and_is_made_up_for_when_it_is_declared_again():
    new = replace(NEW, declared=True)
    stored = applied(declare(None, new, 5000.0))
    change = undeclared(stored, 5000.0)
    assert placed(change) == ([], ["02:00:00"])
    gone = applied(change)
    assert gone.schedule.state == "undeclared"
    assert tick(gone, 9 * HOUR) is None
    assert gone.schedule.handled <= 5000.0
    assert undeclared(gone, 9 * HOUR) is None
    forgotten = undeclared(gone, 5001.0 + KEEP_UNDECLARED)
    assert forgotten is not None
    assert forgotten.after is None
    assert placed(declare(gone, new, 9 * HOUR + 5)) == (["09:00:00", "10:00:00"], [])


def test_a_paused_schedule_that_is_declared_again_stays_paused():
    new = replace(NEW, declared=True)
    paused = applied(pause(applied(declare(None, new, 5000.0)), 5000.0))
    assert applied(declare(paused, replace(new, every=60.0), 6000.0)).schedule.paused


def test_with_a_unique_key_a_tick_is_placed_when_it_comes():
    job, body = template(replace(JOB, unique_key="k"))
    change = put(None, Schedule("acme", job, body, every=HOUR), 5000.0)
    assert change.place == ()
    stored = applied(change)
    assert look_again_in(stored.schedule, 5000.0, 9.0) == 2200.0
    change = tick(stored, 7200.5)
    assert placed(change) == (["02:00:00"], [])
    assert tick(applied(change), 7201.0) is None
    assert placed(tick(applied(change), 3 * HOUR + 0.1)) == (["03:00:00"], ["02:00:00"])


def test_each_process_looks_after_its_offset_and_early_enough():
    schedule = begun()[0].schedule
    assert look_again_in(schedule, 7000.0, 5.0) == 205.0
    assert look_again_in(schedule, 7000.0, 0.0) == 200.0
    quick = begun(every=4.0)[0].schedule
    assert look_again_in(quick, 5000.0, 9.0) == 5.0


def test_a_job_of_a_tick_has_the_options_of_the_call_and_expires_after_the_tick():
    call = replace(JOB, region="EU", priority=2, expires=30.0, keep=60, fairness_key="k")
    job, body = template(call)
    change = put(None, Schedule("acme", job, body, every=HOUR), 5000.0)
    [made] = change.place
    assert made == replace(call, id="acme@1970-01-01T02:00:00Z", delay=2200.0, expires=2230.0)
    assert set(job) == {"queue", "task", "region", "priority", "expires", "keep", "fairness_key"}


def test_the_jobs_of_a_chain_are_named_after_the_tick():
    flow = b'{"task":"a","args":[],"kwargs":{},"flow":{"root":"x","path":["a","b"],"number":1}}'
    job, body = template(replace(JOB, body=flow))
    [made] = put(None, Schedule("acme", job, body, every=HOUR), 5000.0).place
    assert b'"root":"acme@1970-01-01T02:00:00Z"' in made.body
    assert b'"named":true' in made.body


def test_a_record_that_cannot_be_read_is_left_out():
    good = record_of(begun()[0].schedule)
    bad = {"a": b"", "b": b"{}", "c": b'{"name":"c","job":{"task":"t"},"body":{}}', "d": b"\xff"}
    zone = good.replace(b'"every":3600.0', b'"cron":"0 9 * * *","timezone":"Mars/Base"')
    assert list(read_schedules({**bad, "zone": zone, "acme": good})) == ["acme"]


def test_what_cannot_be_scheduled_is_refused():
    check_template("acme", JOB)
    with pytest.raises(InvalidError, match=r"its call has a delay of 5 s.*leave out delay="):
        check_template("acme", replace(JOB, delay=5.0))
    with pytest.raises(InvalidError, match=r"its call is debounced.*leave out debounce="):
        check_template("acme", replace(JOB, unique_key="k", debounce_max=5.0))
    check_template("x" * 107, JOB)
    with pytest.raises(InvalidError, match="has a name of 108 characters; use at most 107"):
        check_template("x" * 108, JOB)
    followed = replace(JOB, body=b'{"sink":{"task":"s"}}')
    check_template("x" * 79, followed)
    with pytest.raises(InvalidError, match="has a name of 80 characters; use at most 79"):
        check_template("x" * 80, followed)
    with pytest.raises(InvalidError, match="schedule '' has 0 characters"):
        check_template("", JOB)
    with pytest.raises(InvalidError, match="part of a gather"):
        check_template("acme", replace(JOB, awaits=2))


def test_a_rule_for_missed_ticks_is_one_of_three():
    assert check_catch_up("all") == "all"
    with pytest.raises(InvalidError, match="catch_up 'some' is not one of"):
        check_catch_up("some")


def test_a_schedule_without_a_timing_is_refused():
    assert check_timing("acme", None, 300.0, None)["every"] == 300.0
    with pytest.raises(InvalidError, match="schedule 'acme' has neither cron nor every"):
        check_timing("acme", None, None, None)


SPRING = datetime(2026, 3, 29, 0, 0, tzinfo=UTC).timestamp()
AUTUMN = datetime(2026, 10, 25, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("begin", [SPRING - 2 * 86_400, AUTUMN - 2 * 86_400])
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 3 * * *", "0 0 * * 0"])
def test_each_tick_is_placed_once_through_a_change_of_the_clocks(begin, cron):
    stored = applied(
        put(None, replace(NEW, every=None, cron=cron, timezone="Europe/Berlin"), begin)
    )
    ids = [tick_id("acme", stored.schedule.placed)]
    now = begin
    while now < begin + 4 * 86_400:
        now = min(stored.schedule.handled + 1.0, begin + 4 * 86_400)
        if (change := tick(stored, now)) is not None:
            assert not change.withdraw
            ids += [job.id for job in change.place]
            stored = applied(change)
    expected = ticks_after(Cron(cron, "Europe/Berlin"), begin, len(ids))
    assert ids == [tick_id("acme", each) for each in expected]


@steady
@given(
    st.lists(st.floats(0.1, 40_000), max_size=30),
    st.sampled_from(["one", "none", "all"]),
    st.sampled_from([600.0, 3600.0, 7000.5]),
)
def test_whenever_it_is_looked_at_no_tick_is_placed_twice_and_the_next_is_always_there(
    waits, catch_up, every
):
    stored, change = begun(catch_up=catch_up, every=every)
    seen = [job.id for job in change.place]
    now = 5000.0
    for wait in waits:
        now += wait
        while (change := tick(stored, now)) is not None:
            seen += [job.id for job in change.place]
            stored = applied(change)
        assert stored.schedule.placed == stored.schedule.timing.after(now)
    assert len(seen) == len(set(seen))
    if catch_up == "all":
        made = ticks_after(stored.schedule.timing, 5000.0, len(seen))
        assert seen == [tick_id("acme", each) for each in made]


def test_a_schedule_whose_body_another_program_spoilt_is_shown_without_arguments():
    spoilt = replace(NEW, body=Raw(b"nonsense"))
    assert spoilt.arguments == ([], {})
    assert options_of(spoilt) == {}


def test_a_body_that_is_in_no_chain_stays_as_it_is():
    body = b'{"task":"report","flow":null}'
    assert body_of(body, "tick") == body


def test_a_schedule_has_no_problem_while_nobody_could_know_its_task():
    assert problem_of(replace(NEW, paused=True), 1000.0, ()) is None
    assert problem_of(NEW, 1000.0, ()) is None


def test_a_schedule_has_a_problem_when_no_live_worker_knows_its_task():
    known = Registration("w", 1000.0, ("default",), {"report": ""})
    assert problem_of(NEW, 1000.0, [known]) is None
    other = replace(known, tasks={"other": ""})
    assert "no live worker knows" in (problem_of(NEW, 1000.0, [other]) or "")


def test_a_reader_sees_when_a_schedule_ticks_and_what_it_calls():
    body = Raw(b'{"task":"report","args":[7],"kwargs":{"a":1},"timeout":9}')
    schedule = Schedule(
        "acme", {"task": "report", "queue": "q", "priority": 2}, body, every=60.0, ticks=4
    )
    view = view_of(schedule, 90.0, [], ())
    assert (view.name, view.task, view.queue) == ("acme", "report", "q")
    assert (view.args, view.kwargs) == ([7], {"a": 1})
    assert view.options == {"priority": 2, "timeout": 9}
    assert (view.timing, view.state, view.ticks) == ("every 60 s", "active", 4)
    assert (view.next_tick, view.next_ticks) == (120.0, [120.0, 180.0, 240.0, 300.0, 360.0])
    paused = view_of(replace(schedule, paused=True), 90.0, [], ())
    assert (paused.state, paused.next_tick, paused.next_ticks) == ("paused", None, [])
    came = view_of(replace(schedule, placed=90.0), 90.0, [], ())
    assert (came.ticks, came.last_tick) == (5, 90.0)


def test_a_schedule_that_no_live_worker_declares_is_seen_as_undeclared():
    declared = Schedule("acme", {"task": "report"}, Raw(b"{}"), every=60.0, declared=True)
    assert view_of(declared, 90.0, [], ()).state == "undeclared"
    assert view_of(declared, 90.0, [], {"acme"}).state == "active"


def test_the_time_zone_of_a_timing_is_said_unless_it_is_utc():
    hourly = Schedule("acme", {"task": "report"}, Raw(b"{}"), cron="0 * * * *")
    for zone, words in ((None, "0 * * * *"), ("UTC", "0 * * * *")):
        assert view_of(replace(hourly, timezone=zone), 90.0, [], ()).timing == words
    berlin = view_of(replace(hourly, timezone="Europe/Berlin"), 90.0, [], ())
    assert berlin.timing == "0 * * * * Europe/Berlin"


def test_only_schedules_with_a_problem_are_told():
    view = view_of(Schedule("acme", {"task": "report"}, Raw(b"{}"), every=60.0), 90.0, [], ())
    assert problems([view, replace(view, problem="nobody knows it")]) == ["nobody knows it"]
