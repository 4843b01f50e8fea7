import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from mulligan.core.decide import SNOOZE_LIMIT, beyond, blames_region, decide, with_use
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import Fifo
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Attempt, Claim, decode_call, decode_policy, encode, first_token
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Drained,
    Failed,
    Later,
    Limited,
    LimitUse,
    Lost,
    Result,
    Returned,
    Snoozed,
    Succeeded,
)
from mulligan.core.retry import Adaptive, Delays, Exponential, Retry, Sessions, Trail, read_trail
from mulligan.core.stage import Stage
from tests.core.strategies import draws, retries, steady

EXACT = Retry(3, Exponential(2, 2, 60, "none"))
OOPS = Failed("ValueError", "oops", code="E1", refused="null")
SERVED = frozenset({"questions"})
ALONE = Facts(regions=(Region("US", SERVED),))
WITH_EU = Facts(regions=(Region("EU", SERVED), Region("US", SERVED)))


def claimed(retry: Retry = EXACT, on_dead: str | None = None, **changes: object) -> Claim:
    body = {"task": "ask", "args": [], "kwargs": {}, "retry": retry}
    if on_dead is not None:
        body |= {"on_dead": {"task": on_dead, "queue": "graves"}}
    claim = Claim(
        id="A-q1",
        token=7,
        queue="questions",
        task="ask",
        body=encode(body),
        region="US",
        priority=Priority.NORMAL,
        scope="US",
        lane_priority=Priority.NORMAL,
        due=100.0,
        retry_count=0,
        replay=0,
        snoozes=0,
        worker="w1",
        worker_region="US",
        started_at=101.0,
    )
    return replace(claim, **changes)


def decided(claim: Claim, result: Result, facts: Facts = ALONE, draw: float = 0.5, depth: int = 0):
    outcome = decide(claim, result, facts, draw, depth)
    assert outcome.lease == ("A-q1", 7)
    return outcome


def lane_of(claim: Claim, facts: Facts = ALONE) -> Lane:
    outcome = decided(claim, OOPS, facts)
    assert isinstance(outcome, Again)
    return outcome.lane


def test_a_success_is_done_with_its_result():
    assert decided(claimed(), Succeeded(b"42")) == Done(claimed().lease, b"42")


def test_a_failure_with_a_retry_left_runs_again_after_the_policys_delay():
    assert decided(claimed(retry_count=1), OOPS) == Again(
        claimed().lease,
        Lane("questions", "*", Priority.RETRY),
        4.0,
        Attempt(2, 0, "US", "w1", 101.0, "ValueError", "oops", "E1", 4.0, "null"),
        '[["US"],4.0,0,0,false]',
    )


@pytest.mark.parametrize(("retry_count", "delay"), [(0, 2), (1, 4), (2, 8)])
def test_the_delay_is_that_of_the_retry_to_come(retry_count, delay):
    assert decided(claimed(retry_count=retry_count), OOPS).delay == delay


def test_a_count_that_was_made_negative_counts_as_none():
    outcome = decided(claimed(Retry(3, Delays((5, 7))), retry_count=-3), OOPS)
    assert isinstance(outcome, Again)
    assert outcome.delay == 5


def test_the_last_failure_is_a_dead_letter():
    assert decided(claimed(retry_count=3), OOPS) == Dead(
        claimed().lease,
        Attempt(4, 0, "US", "w1", 101.0, "ValueError", "oops", "E1", None, "null"),
    )


def test_a_claim_beyond_its_retries_must_not_run():
    """None of ours is: another program may have counted on."""
    assert beyond(claimed(retry_count=3)) is None
    assert beyond(claimed(Retry(None), retry_count=1000)) is None
    assert beyond(claimed(retry_count=4, body=b"torn")) is None
    failure = beyond(claimed(retry_count=4))
    assert failure is not None
    assert (failure.code, failure.non_retryable) == ("spent", True)
    assert "4 retries, and max_retries is 3" in failure.message
    assert isinstance(decide(claimed(retry_count=4), failure, ALONE, 0.5), Dead)


@pytest.mark.parametrize("limits", ["", "x", '{"a":-1}'])
def test_a_claim_whose_limits_cannot_be_read_must_not_run(limits):
    """It could exceed them; none of ours is like that, but another program may have changed it."""
    assert beyond(replace(claimed(), limits='{"a":1}')) is None
    failure = beyond(replace(claimed(), limits=limits))
    assert failure is not None
    assert (failure.code, failure.non_retryable) == ("limits", True)


def test_without_retries_the_first_failure_is_the_last():
    assert isinstance(decided(claimed(Retry(0)), OOPS), Dead)


def test_without_end_no_failure_is_the_last():
    endless = claimed(Retry(None, Sessions()), retry_count=10**6)
    assert isinstance(decided(endless, OOPS), Again)


def test_a_non_retryable_failure_is_a_dead_letter_whatever_is_left():
    assert isinstance(decided(claimed(), replace(OOPS, non_retryable=True)), Dead)


@pytest.mark.parametrize("delay", [0.0, 90.0])
def test_a_failure_may_name_its_own_delay(delay):
    outcome = decided(claimed(), replace(OOPS, delay=delay))
    assert (outcome.delay, outcome.failure.delay) == (delay, delay)


def test_a_delay_of_its_own_grants_no_retry_beyond_the_last():
    assert isinstance(decided(claimed(retry_count=3), replace(OOPS, delay=1.0)), Dead)


def test_jitter_comes_from_the_draw():
    jittery = claimed(Retry(3, Exponential(2, 2, 60, "full")), retry_count=1)
    assert decided(jittery, OOPS, draw=0.25).delay == 1


def test_adaptive_backoff_looks_at_the_depth():
    adaptive = claimed(Retry(3, Adaptive()))
    assert decided(adaptive, OOPS, depth=5).delay == 3


def test_a_lost_attempt_counts_and_its_retry_is_due_at_once():
    outcome = decided(claimed(Retry(3, Delays((30,)))), Lost())
    assert isinstance(outcome, Again)
    assert outcome.delay == outcome.failure.delay == 0
    assert (outcome.failure.number, outcome.failure.type) == (1, "Lost")
    assert outcome.failure.message == "the worker stopped beating while it held the job"


def test_an_attempt_lost_on_the_last_retry_is_a_dead_letter():
    outcome = decided(claimed(retry_count=3), Lost())
    assert isinstance(outcome, Dead)
    assert outcome.failure.type == "Lost"


def test_an_attempt_lost_for_good_is_a_dead_letter():
    assert isinstance(decided(claimed(), Lost(non_retryable=True)), Dead)


def test_a_snooze_uses_no_attempt():
    assert decided(claimed(retry_count=3), Snoozed(60.0)) == Later(claimed().lease, 60.0)


def test_a_job_may_snooze_a_hundred_times():
    assert SNOOZE_LIMIT == 100
    assert isinstance(decided(claimed(snoozes=99), Snoozed(60.0)), Later)


def test_a_snooze_over_the_limit_is_a_failed_attempt():
    outcome = decided(claimed(snoozes=100), Snoozed(60.0))
    assert isinstance(outcome, Again)
    assert outcome.delay == 2
    assert outcome.failure.message == "the job was snoozed more than 100 times"
    assert isinstance(decided(claimed(snoozes=100, retry_count=3), Snoozed(60.0)), Dead)


def test_a_drained_job_goes_back_as_if_never_claimed():
    assert decided(claimed(), Drained()) == Returned(claimed().lease)


def test_a_retry_goes_anywhere_when_no_other_region_is_alive():
    assert lane_of(claimed()) == Lane("questions", "*", Priority.RETRY)
    asleep = Facts(regions=(Region("EU"), Region("US", SERVED)))
    assert lane_of(claimed(), asleep) == Lane("questions", "*", Priority.RETRY)


def test_a_first_retry_is_left_to_other_regions_while_one_is_alive():
    assert lane_of(claimed(), WITH_EU) == Lane("questions", "*-US", Priority.RETRY)


def test_it_is_the_region_that_failed_it_that_goes_last():
    abroad = claimed(worker_region="EU", scope="*", lane_priority=Priority.RETRY)
    assert lane_of(abroad, WITH_EU) == Lane("questions", "*-EU", Priority.RETRY)


ASIA_TOO = Facts(regions=(Region("ASIA", SERVED), *WITH_EU.regions))


def scope_of(facts: Facts, *failed_in: str, retry_count: int = 1) -> str:
    """Where a later retry goes that these regions have failed; the last one just now."""
    trail = Trail()
    for region in failed_in[:-1]:
        trail = trail.after(region, 2.0)
    last = claimed(retry_count=retry_count, worker_region=failed_in[-1], trail=trail.write())
    return lane_of(last, facts).scope


def rated(**rates: float) -> dict[tuple[str, str], Health]:
    """Regions that succeeded in this share of a hundred attempts."""
    return {
        ("questions", region): Health(round(rate * 100), 100 - round(rate * 100))
        for region, rate in rates.items()
    }


def test_a_second_retry_goes_first_to_a_region_that_has_not_failed_it():
    assert scope_of(ASIA_TOO, "US", "EU") == "*+ASIA"
    assert scope_of(ASIA_TOO, "ASIA", "EU") == "*+US"


def test_of_those_the_one_that_succeeds_most_is_first():
    facts = replace(ASIA_TOO, health=rated(ASIA=0.7, US=0.9))
    assert scope_of(facts, "EU") == "*+US"
    assert scope_of(replace(facts, health=rated(ASIA=0.7)), "EU") == "*+US"


def test_a_region_of_which_little_is_known_counts_as_reliable():
    few = {("questions", "ASIA"): Health(0, 19)}
    assert scope_of(replace(ASIA_TOO, health=few), "EU") == "*+ASIA"
    enough = {("questions", "ASIA"): Health(0, 20)}
    assert scope_of(replace(ASIA_TOO, health=enough), "EU") == "*+US"


def test_where_every_region_has_failed_it_the_best_of_all_is_first():
    facts = replace(ASIA_TOO, health=rated(EU=0.9, ASIA=0.8, US=0.8))
    assert scope_of(facts, "EU", "ASIA", "US", retry_count=2) == "*+EU"


def test_of_equals_the_one_whose_failure_is_longest_ago_is_first():
    assert scope_of(ASIA_TOO, "EU", "ASIA", "US", retry_count=2) == "*+EU"
    assert scope_of(ASIA_TOO, "EU", "ASIA", "EU", "US", retry_count=2) == "*+ASIA"


def test_a_region_whose_breaker_is_open_is_not_asked_first():
    tripped = {("questions", "ASIA"): Health(breaker=Breaker(open=True))}
    assert scope_of(replace(ASIA_TOO, health=tripped), "EU") == "*+US"


def test_where_every_breaker_is_open_all_are_asked():
    tripped = {("questions", r): Health(breaker=Breaker(open=True)) for r in ("ASIA", "EU", "US")}
    assert scope_of(replace(ASIA_TOO, health=tripped), "EU") == "*+ASIA"


def test_a_region_alone_needs_no_first_chance():
    assert scope_of(ALONE, "US") == "*"


def test_a_first_retry_is_not_left_to_others_that_are_all_open():
    tripped = {("questions", "EU"): Health(breaker=Breaker(open=True))}
    assert lane_of(claimed(), replace(WITH_EU, health=tripped)).scope == "*"


def test_regions_that_do_not_serve_the_queue_are_not_waited_for():
    elsewhere = Facts(regions=(Region("EU", frozenset({"other"})), Region("US", SERVED)))
    assert lane_of(claimed(), elsewhere).scope == "*"


def test_a_retry_leaves_a_trail_of_where_it_failed_and_how_long_it_pauses():
    first = decided(claimed(worker_region="US"), OOPS)
    assert read_trail(first.trail) == Trail(("US",), first.delay)
    again = decided(claimed(worker_region="EU", retry_count=1, trail=first.trail), OOPS)
    assert read_trail(again.trail) == Trail(("US", "EU"), again.delay)
    back = decided(claimed(worker_region="US", retry_count=2, trail=again.trail), OOPS)
    assert read_trail(back.trail).regions == ("EU", "US")


def test_a_trail_that_cannot_be_read_is_none():
    assert read_trail("{") == read_trail("") == Trail()


def test_what_a_failure_says_about_its_region():
    assert blames_region(Failed("E", "m"))
    assert blames_region(Lost())
    assert not blames_region(Failed("E", "m", non_retryable=True))
    assert not blames_region(Failed("Refused", "m", refused="x"))
    assert not blames_region(Failed("ValueError", "m", about_region=False))
    assert blames_region(Succeeded(None)) is False


def test_with_a_grace_however_short_a_first_retry_is_left_to_the_others():
    facts = replace(WITH_EU, queues={"questions": QueueSettings(grace=0.5)})
    assert lane_of(claimed(), facts).scope == "*-US"


def test_without_a_grace_a_first_retry_may_go_anywhere_at_once():
    facts = replace(WITH_EU, queues={"questions": QueueSettings(grace=0)})
    assert lane_of(claimed(), facts) == Lane("questions", "*", Priority.RETRY)


def test_a_task_may_pin_its_retries_to_the_jobs_own_region():
    pinned = claimed(replace(EXACT, scope="region"), worker_region="EU")
    assert lane_of(pinned, WITH_EU) == Lane("questions", "US", Priority.RETRY)


def test_a_retry_of_an_urgent_job_stays_urgent():
    urgent = claimed(priority=Priority.URGENT, lane_priority=Priority.URGENT)
    assert lane_of(urgent) == Lane("questions", "*", Priority.URGENT_RETRY)
    assert lane_of(urgent, WITH_EU).scope == "*-US"
    pinned = claimed(replace(EXACT, scope="region"), priority=Priority.URGENT)
    assert lane_of(pinned) == Lane("questions", "US", Priority.URGENT_RETRY)


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.URGENT])
def test_under_fifo_a_retry_joins_the_fresh_line_of_its_region(priority):
    facts = replace(WITH_EU, queues={"questions": QueueSettings(Fifo())})
    claim = claimed(priority=priority, worker_region="EU")
    assert lane_of(claim, facts) == Lane("questions", "US", priority)


def test_a_dead_letter_is_told_once_under_an_id_of_its_own():
    claim = claimed(on_dead="bury", retry_count=3, replay=2)
    outcome = decided(claim, OOPS)
    assert outcome == decided(claim, OOPS)
    (news,) = outcome.next
    assert (news.id, news.queue, news.task) == ("A-q1.dead.2", "graves", "bury")
    assert (news.region, news.priority, news.delay) == ("US", Priority.NORMAL, 0.0)
    assert decode_policy(news.body).retry == Retry()
    assert decode_policy(news.body).on_dead is None
    assert decode_call(news.body).args == [
        {
            "id": "A-q1",
            "queue": "questions",
            "task": "ask",
            "attempts": 4,
            "type": "ValueError",
            "message": "oops",
            "traceback": None,
        }
    ]
    assert msgspec.json.decode(news.body)["kwargs"] == {}


def test_a_dead_letter_is_told_where_and_how_the_task_that_hears_of_it_says():
    hears = Stage("bury", "graves", "EU", Priority.URGENT, Raw(b'{"max_retries":9}'), 3.0)
    body = encode({"retry": EXACT, "on_dead": hears})
    (news,) = decided(claimed(retry_count=3, body=body), OOPS).next
    assert (news.queue, news.region, news.priority) == ("graves", "EU", Priority.URGENT)
    assert decode_policy(news.body).retry.max_retries == 9
    assert decode_call(news.body).timeout == 3.0


def test_a_dead_letter_of_an_id_that_may_come_again_is_told_under_the_name_of_its_life():
    body = encode({"retry": EXACT, "on_dead": Stage("bury"), "named": True})
    claim = claimed(retry_count=3, token=first_token(17) + 4, body=body)
    outcome = decide(claim, OOPS, ALONE, 0.5)
    assert isinstance(outcome, Dead)
    assert [news.id for news in outcome.next] == ["A-q1~17.dead.0"]


def test_each_replay_that_dies_is_told_again():
    ids = {decided(claimed(Retry(0), "bury", replay=n), OOPS).next[0].id for n in range(3)}
    assert len(ids) == 3


def test_nobody_is_told_of_a_retry():
    outcome = decided(claimed(on_dead="bury"), OOPS)
    assert isinstance(outcome, Again)


def test_a_body_without_a_policy_has_the_default_one():
    bare = claimed(body=msgspec.json.encode({"task": "ask"}), retry_count=4)
    assert isinstance(decided(bare, OOPS), Again)
    assert isinstance(decided(replace(bare, retry_count=5), OOPS), Dead)


results: st.SearchStrategy[Result] = st.one_of(
    st.builds(Failed, st.just("E"), st.text(), delay=st.none() | st.floats(0, 100)),
    st.builds(Lost),
    st.builds(Snoozed, st.floats(0, 100)),
    st.builds(Drained),
)


@steady
@given(retries, st.lists(results, max_size=60), draws, st.integers(0, 100))
def test_retry_count_never_exceeds_max_retries(retry, sequence, draw, snoozes):
    claim = claimed(retry, snoozes=snoozes)
    attempts = 0
    for result in sequence:
        outcome = decide(claim, result, WITH_EU, draw)
        match outcome:
            case Again():
                attempts += 1
                claim = replace(claim, retry_count=claim.retry_count + 1)
            case Later():
                claim = replace(claim, snoozes=claim.snoozes + 1)
            case Dead():
                attempts += 1
                assert attempts == (retry.max_retries or 0) + 1
                break
        assert attempts == claim.retry_count
        assert retry.max_retries is None or claim.retry_count <= retry.max_retries
        assert claim.snoozes <= SNOOZE_LIMIT


# -- probes ------------------------------------------------------------------------------------

AWAY = Failed("ConnectionError", "away")
OPENED = replace(
    WITH_EU, health={("questions", "US"): Health(breaker=Breaker(open=True, since=100.0))}
)


@pytest.mark.parametrize("retry_count", [0, 1, 3])
def test_a_failed_probe_uses_no_retry_and_goes_elsewhere(retry_count):
    outcome = decided(claimed(retry_count=retry_count), AWAY, OPENED)
    assert isinstance(outcome, Again)
    assert outcome.free
    assert outcome.lane.scope != "US"
    assert outcome.delay == EXACT.backoff.delay(retry_count + 1, 0.5, 0)
    assert read_trail(outcome.trail).probes == 1


@pytest.mark.parametrize(
    ("result", "facts", "changes"),
    [
        (AWAY, WITH_EU, {}),  # no breaker is open
        (AWAY, replace(ALONE, health=OPENED.health), {}),  # nobody healthy serves
        (AWAY, OPENED, {"started_at": 99.0}),  # it started before the breaker opened
        (AWAY, OPENED, {"worker_region": "EU"}),  # it ran in a healthy region
        (replace(AWAY, about_region=False), OPENED, {}),  # it says nothing about the region
        (AWAY, OPENED, {"trail": Trail(("US",), 2.0, 0, 3).write()}),  # three were free
        (Lost(), OPENED, {}),
    ],
)
def test_every_other_failure_uses_a_retry(result, facts, changes):
    outcome = decided(claimed(**changes), result, facts)
    assert isinstance(outcome, Again)
    assert not outcome.free
    assert isinstance(decided(claimed(retry_count=3, **changes), result, facts), Dead)


def test_a_failed_probe_that_is_non_retryable_is_a_dead_letter():
    assert isinstance(decided(claimed(), replace(AWAY, non_retryable=True), OPENED), Dead)


def test_free_probes_are_remembered_through_later_failures():
    trail = Trail().after("US", 2.0, free=True).after("EU", 2.0).after("US", 2.0, free=True)
    assert trail.probes == 2
    assert read_trail(trail.write()) == trail


DONE = Done(claimed().lease, b"1")


def use_of(result: Result, spent: dict[str, int]) -> LimitUse | None:
    outcome = with_use(DONE, result, spent)
    assert isinstance(outcome, Done)
    return outcome.use


def test_an_outcome_without_anything_about_limits_is_as_it_was():
    assert with_use(DONE, Succeeded(b"1"), {}) is DONE
    assert with_use(DONE, OOPS, {}) is DONE


def test_an_outcome_says_what_its_attempt_spent_in_order_of_names():
    spent = {"tokens": 30, "calls": 1}
    assert use_of(Succeeded(b"1"), spent) == LimitUse((("calls", 1), ("tokens", 30)))


def test_a_failure_that_asks_for_a_wait_tells_it_to_the_limits_of_its_job():
    for failed in (replace(OOPS, delay=20.0), replace(OOPS, least_delay=20.0)):
        assert use_of(failed, {}) == LimitUse((), (), 20.0)
    both = replace(OOPS, delay=5.0, least_delay=20.0)
    assert use_of(both, {}) == LimitUse((), (), 5.0)


def test_a_failure_pauses_the_limits_that_it_names_for_as_long_as_it_asks():
    failed = replace(OOPS, delay=20.0, pause=("openai", "tenant:a"))
    pauses = (("openai", 20.0), ("tenant:a", 20.0))
    assert use_of(failed, {}) == LimitUse((), pauses, 20.0)
    assert use_of(replace(failed, delay=0.0), {}) == LimitUse(
        (), (("openai", 0.0), ("tenant:a", 0.0)), None
    )


@pytest.mark.parametrize(
    "outcome",
    [Returned(DONE.lease), Limited(DONE.lease, None, None), Cancelled(DONE.lease, "enough")],
)
def test_an_attempt_that_did_not_run_says_nothing_of_limits(outcome):
    assert with_use(outcome, Succeeded(None), {"calls": 1}) is outcome
