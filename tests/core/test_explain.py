import pytest
from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.explain import Surroundings, explain
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.fetch import Capped, RetryFirst
from mulligan.core.job import encode
from mulligan.core.lane import Priority
from mulligan.core.limits import Limit, LimitView, StoredLimit
from mulligan.core.retry import Retry
from tests.core.jobs import WAITING

RETRY = replace(WAITING, scope="*", lane_priority=Priority.RETRY, retry_count=2)
AROUND = Surroundings(now=1000.0, ahead=3, facts=Facts(), live_workers=2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"status": "done", "ended_at": 995.0}, "Done 5.0 s ago, at attempt 1."),
        ({"status": "done"}, "Done, at attempt 1."),
        (
            {"status": "done", "ended_at": 995.0, "keep": 15},
            "Done 5.0 s ago, at attempt 1; kept for another 10 s.",
        ),
        (
            {
                "status": "failed",
                "ended_at": 700.0,
                "retry_count": 3,
                "last_failure_reason": "oops",
            },
            "Failed for good 5 min ago at attempt 4: oops; replay it to try again.",
        ),
        (
            {"status": "cancelled", "ended_at": 1000.0, "cancel_reason": "not needed"},
            "Cancelled 0.0 s ago, before attempt 1 had started: not needed.",
        ),
        (
            {
                "status": "cancelled",
                "ended_at": 1000.0,
                "cancel_reason": "not needed",
                "started_at": WAITING.due,
                "retry_count": 1,
            },
            "Cancelled 0.0 s ago, while attempt 2 ran: not needed.",
        ),
        (
            {"status": "cancelled", "cancel_reason": "late", "started_at": WAITING.due - 1},
            "Cancelled, before attempt 1 had started: late.",
        ),
        (
            {"status": "processing", "worker": "w1", "worker_region": "EU", "started_at": 970.0},
            "Running attempt 1 on worker w1 in region EU since 30 s.",
        ),
        (
            {"status": "processing", "worker": "w1", "worker_region": "EU"},
            "Running attempt 1 on worker w1 in region EU since 0.0 s.",
        ),
        (
            {"status": "processing", "started_at": 970.0},
            "Running attempt 1 in another program, which took it 30 s ago.",
        ),
        ({"status": "processing"}, "Running attempt 1 in another program."),
        (
            {"status": "processing", "queue": "", "last_failure_reason": "it is torn"},
            "Stored as processing, but no worker can run it: it is torn.",
        ),
        (
            {"status": "pending", "queue": "", "last_failure_reason": "it is torn"},
            "Stored as pending, but no worker can run it: it is torn.",
        ),
    ],
)
def test_a_job_that_does_not_wait_is_explained_by_its_status(changes, sentence):
    assert explain(replace(WAITING, **changes), AROUND) == sentence


def test_a_paused_queue_explains_all_of_its_jobs():
    around = replace(AROUND, facts=Facts(paused=frozenset({"questions"})))
    sentence = "Waiting because queue questions is paused; resume it to go on."
    assert explain(WAITING, around) == sentence
    assert explain(replace(WAITING, due=1000.0), around) == sentence
    assert explain(replace(WAITING, due=2000.0), around) == (
        "Waiting because queue questions is paused, and it is due in 17 min; resume it to go on."
    )


@pytest.mark.parametrize(
    ("scope", "where"),
    [
        ("US", "in region US"),
        ("*", "in any region"),
        ("*-US", "in any region, at first not in US"),
        ("*+ASIA", "in any region, at first in ASIA"),
    ],
)
def test_a_retry_in_backoff_says_what_failed_and_when_and_where_it_runs(scope, where):
    job = replace(RETRY, scope=scope, due=1004.0, last_failure_reason="oops")
    assert explain(job, AROUND) == f"Waiting for retry 2 after: oops; it is due in 4.0 s, {where}."


def test_a_delayed_job_says_when_it_is_due():
    job = replace(WAITING, due=1000.0 + 3 * 86_400)
    assert explain(job, AROUND) == "Delayed; it is due in 3 d, in region US."


HELD_UP = replace(WAITING, waits_for="openai", limits='{"openai":1}')
OPENAI = LimitView("openai", StoredLimit(), Limit(rate=60, per=60), running=4, waiting=3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"room_at": 1012.0}, "has room again in 12 s"),
        ({"room_at": 1000.0}, "has room for the next one"),
        ({}, "has room when one of the 4 that run under it ends"),
        ({"room_at": 1020.0, "paused_until": 1020.0}, "is paused for another 20 s"),
        ({"room_at": 1000.0, "paused_until": 1000.0}, "has room for the next one"),
    ],
)
def test_a_job_names_the_limit_that_it_waits_for_and_when_there_is_room(changes, words):
    around = replace(AROUND, limits={"openai": replace(OPENAI, **changes)})
    assert explain(HELD_UP, around) == (
        f"Waiting for limit 'openai' (60 per 60 s), which {words};"
        " at most 2 of the 3 that wait for it are before it."
    )


@pytest.mark.parametrize(
    ("limit", "used", "words"),
    [
        (
            Limit(rate=60, per=90),
            40,
            "has room for 20 of its cost of 50, and for all of it in at most 90 s",
        ),
        (
            Limit(rate=60, per=60),
            75,
            "has room for 0 of its cost of 50, and for all of it in at most 60 s",
        ),
        (
            Limit(rate=60, per=60, burst=50),
            20,
            "has room for 30 of its cost of 50, and for all of it in 20 s",
        ),
        (
            Limit(rate=20, per=60),
            1,
            "has room for 19 of its cost of 50, and for all of it in at most 60 s",
        ),
        (Limit(rate=60, per=60), 5, "has room for the next one"),
        (Limit(concurrency=6), 0, "has room for the next one"),
    ],
)
def test_a_job_of_a_cost_is_told_how_much_of_it_there_is_room_for(limit, used, words):
    job = replace(HELD_UP, limits='{"openai":50}')
    view = replace(OPENAI, in_force=limit, used=used, room_at=1000.0)
    assert f"), which {words}; " in explain(job, replace(AROUND, limits={"openai": view}))


@pytest.mark.parametrize(
    ("cost", "used", "words"),
    [
        (2, 59, "has room for 1 of its cost of 2, and for all of it in at most 60 s"),
        (2, 58, "has room again in 12 s"),
        (1, 60, "has room again in 12 s"),
        (None, 60, "has room again in 12 s"),  # it was put into its line under other limits
    ],
)
def test_a_job_whose_whole_cost_there_is_room_for_is_told_when_it_may_start(cost, used, words):
    job = replace(HELD_UP, limits=cost and f'{{"openai":{cost}}}')
    view = replace(OPENAI, used=used, room_at=1012.0)
    assert f"), which {words}; " in explain(job, replace(AROUND, limits={"openai": view}))


def test_the_only_one_that_runs_under_a_limit_is_told():
    view = replace(OPENAI, running=1, waiting=2)
    said = explain(HELD_UP, replace(AROUND, limits={"openai": view}))
    assert "has room when the job that runs under it ends; at most 1 of the 2 that wait" in said
    assert said.endswith(" for it is before it.")


def test_a_job_that_waits_alone_is_told_so_and_a_limit_of_which_nothing_is_known():
    alone = replace(OPENAI, waiting=1, in_force=None, room_at=1001.0)
    assert explain(HELD_UP, replace(AROUND, limits={"openai": alone})) == (
        "Waiting for limit 'openai', which has room again in 1.0 s; nobody else waits for it."
    )
    assert explain(HELD_UP, AROUND) == "Waiting for limit 'openai', which has no room now."


def test_the_first_that_waits_for_a_limit_is_told_so():
    around = replace(AROUND, ahead=0, limits={"openai": OPENAI})
    assert "it is the first of the 3 that wait for it in lane" in explain(HELD_UP, around)


def test_a_debounced_job_says_what_may_take_its_place():
    job = replace(WAITING, due=1005.0, unique_key="report", debounce_until=1060.0)
    assert explain(job, AROUND) == (
        "Debounced: another call with key 'report' takes its place, for 60 s at most;"
        " it is due in 5.0 s, in region US."
    )


def test_a_pause_is_told_before_a_worker_has_met_it():
    paused = replace(OPENAI, paused_until=1030.0, room_at=1030.0, waiting=0)
    job = replace(HELD_UP, waits_for=None)
    said = explain(job, replace(AROUND, limits={"openai": paused}))
    assert said.startswith("Waiting for limit 'openai' (60 per 60 s), which is paused for another")
    for ended in (999.0, AROUND.now):
        over = replace(AROUND, limits={"openai": replace(paused, paused_until=ended)})
        assert "3 ahead of it in lane" in explain(job, over)


def test_without_a_worker_that_is_told_first():
    assert "no live worker serves" in explain(HELD_UP, replace(AROUND, live_workers=0))


@pytest.mark.parametrize(
    ("scope", "place", "option"),
    [
        ("US", "region US", "--region US "),
        ("default", "region default", ""),
        ("*", "any region", ""),
        ("*-US", "any region", ""),
    ],
)
def test_a_job_that_nobody_serves_names_the_command_that_starts_a_worker(scope, place, option):
    job = replace(WAITING, scope=scope)
    assert explain(job, replace(AROUND, live_workers=0, app="myapp:app")) == (
        f"Waiting because no live worker serves queue questions in {place};"
        f" start one with: mulligan worker myapp:app {option}--queue questions"
    )


def test_a_due_job_says_that_all_slots_wait_for_other_jobs():
    stuck = replace(AROUND, stuck="all 2 slots are taken; raise the concurrency")
    assert explain(WAITING, stuck) == (
        "Due since 10 s, and all 2 slots are taken; raise the concurrency."
    )


def test_a_due_job_says_how_many_are_ahead_of_it_in_which_lane():
    assert explain(WAITING, AROUND) == (
        "Due since 10 s: 3 ahead of it in lane fresh, in region US."
    )


def test_a_job_that_falls_due_right_now_is_due():
    assert explain(replace(WAITING, due=1000.0), AROUND).startswith("Due since 0.0 s: ")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (QueueSettings(Capped(4)), "; at most 4 retries of the queue run at a time"),
        (
            QueueSettings(RetryFirst(), Budget(100)),
            "; the queue's retry budget limits how many start",
        ),
        (QueueSettings(), ""),
    ],
)
def test_a_due_retry_names_the_cap_or_the_budget_that_may_hold_it(settings, reason):
    around = replace(AROUND, facts=Facts(queues={"questions": settings}))
    assert explain(RETRY, around) == (
        f"Due since 10 s: 3 ahead of it in lane global-retry, in any region{reason}."
    )
    assert "retries" not in explain(WAITING, around)


@pytest.mark.parametrize(
    ("waited", "said"),
    [
        (-5, "0.0 s"),
        (9.9, "9.9 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (172_799, "48 h"),
        (172_800, "2 d"),
    ],
)
def test_a_span_is_said_as_people_say_it(waited, said):
    job = replace(WAITING, status="done", ended_at=1000.0 - waited)
    assert explain(job, AROUND) == f"Done {said} ago, at attempt 1."


def test_a_job_whose_task_no_live_worker_knows_names_it():
    said = "no live worker knows task 'ask'; worker ann knew it last, 5 min ago"
    assert explain(WAITING, replace(AROUND, unknown=said)) == (
        f"Waiting because {said}; deploy a worker that does, or cancel the job"
        f" (mulligan cancel {WAITING.id})."
    )


@pytest.mark.parametrize(
    ("retry", "words"),
    [
        (
            Retry(2, on=(OSError, "httpx.HTTPError")),
            " retries only OSError, httpx.HTTPError;",
        ),
        (Retry(2, never=ValueError), "; its policy retries never ValueError;"),
        (Retry(2, on=OSError, never=ValueError), " retries only OSError and never ValueError;"),
        (Retry(0, on=OSError), "oops; replay"),
        (Retry(2), "oops; replay"),
    ],
)
def test_a_failure_that_its_policy_does_not_retry_is_explained(retry, words):
    body = encode({"task": "ask", "args": [], "kwargs": {}, "retry": retry})
    failed = replace(WAITING, status="failed", last_failure_reason="oops", body=body)
    assert words in explain(failed, Surroundings(1000.0, 0, Facts(), 1))


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        (
            "Timeout: the attempt took longer than 0.1 s",
            "if it is too short, enqueue the job again with a longer one.",
        ),
        (
            "BadSignature: the job is not signed; enqueue it by an app that has a key",
            "enqueue it by an app that has a key.",
        ),
        (
            "UnknownTask: no worker knows the task 'x'; deploy one that does, then replay",
            "no worker knows the task 'x'; deploy one that does, then replay.",
        ),
        (
            "UnreadableJob: the job's body cannot be read: it is torn",
            "it is torn; a replay would fail again: purge it, and enqueue the call again.",
        ),
        (
            "MalformedError: malformed: no task",
            "malformed: no task; correct its document, then replay it.",
        ),
        ("NotFoundError: it does not exist.", "it does not exist; replay it to try again."),
        (None, "at attempt 1: no reason is recorded; replay it to try again."),
    ],
)
def test_a_failed_job_is_told_to_be_replayed_only_where_that_helps(reason, ending):
    job = replace(WAITING, status="failed", last_failure_reason=reason)
    said = explain(job, AROUND)
    assert said.endswith(ending)
    assert "None" not in said


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"due": 1004.0, "retry_count": 2},
            "Waiting for retry 2, and no failure is recorded; it is due in 4.0 s, in region US.",
        ),
        (
            {"due": 1004.0, "retry_count": 2, "last_failure_reason": "It broke."},
            "Waiting for retry 2 after: It broke; it is due in 4.0 s, in region US.",
        ),
        (
            {"status": "cancelled"},
            "Cancelled, before attempt 1 had started: no reason is recorded.",
        ),
        (
            {"status": "pending", "queue": ""},
            "Stored as pending, but no worker can run it: no reason is recorded.",
        ),
    ],
)
def test_a_job_that_another_program_changed_without_a_reason_is_explained(changes, sentence):
    assert explain(replace(WAITING, **changes), AROUND) == sentence


def test_a_job_that_asked_for_no_retry_is_not_told_what_its_policy_says():
    body = encode({"task": "ask", "args": [], "kwargs": {}, "retry": Retry(2, never=ValueError)})
    failed = replace(WAITING, status="failed", last_failure_reason="Fail: empty row", body=body)
    assert "Fail: empty row; it asked for no retry; replay" in explain(failed, AROUND)


def test_a_gather_that_waits_for_a_replay_names_the_command():
    job = replace(WAITING, awaits=2)
    assert "those that failed arrive when they are replayed" in explain(job, AROUND)
    failed = explain(replace(job, members_failed=1), AROUND)
    assert "1 of which failed" in failed
    assert "mulligan gather A-q1 replay" in failed


def test_a_gather_that_takes_failures_says_how_many_there_are():
    job = replace(WAITING, awaits=2, return_exceptions=True)
    assert "to end, however they do." in explain(job, AROUND)
    job = replace(job, members_failed=1)
    assert "to end, however they do; 1 failed and 0 cancelled so far" in explain(job, AROUND)
    job = replace(job, members_cancelled=1)
    assert "to end, however they do; 1 failed and 1 cancelled so far" in explain(job, AROUND)
