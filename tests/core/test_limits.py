"""The rule of limits: what may be said, when there is room, what a start charges and gives back."""

from datetime import timedelta

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.facts import QueueSettings
from mulligan.core.key_share import shares
from mulligan.core.lane import Lane
from mulligan.core.limits import (
    FOREVER,
    LAST_HOME,
    LATEST,
    LONG_UNIT,
    LONGEST_PER,
    MOST_COST,
    MOST_NAMES,
    MOST_RATE,
    PARTS,
    SECOND,
    KeyView,
    Limit,
    LimitState,
    StoredLimit,
    allowance,
    bounded,
    charge,
    check_costs,
    check_limit_name,
    check_spent,
    costs_of,
    costs_text,
    counted_at,
    covering,
    forget_starts,
    idle_from,
    is_recounted,
    pauses_of,
    price,
    recount,
    refill,
    refund,
    room_at,
    used_of,
    view_of,
)
from mulligan.core.lines import LEAST_WEIGHT, MOST_WEIGHT, listed_weights

NOW = 1000 * SECOND


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "a limit needs concurrency=, rate=, or both"),
        ({"rate": 0}, "rate 0 of a limit must be a whole number from 1"),
        ({"rate": 1.5}, "rate 1.5 of a limit must be a whole number"),
        ({"concurrency": True}, "concurrency True of a limit must be a whole number"),
        ({"concurrency": 10**5000}, "concurrency <int of thousands of digits> of a limit must be"),
        (
            {"rate": 1, "per": 86_400, "burst": 40_000},
            "burst 40000 takes more than 100 years to re",
        ),
        ({"rate": 1, "burst": 0}, "burst 0 of a limit must be a whole number from 1"),
        ({"rate": 1, "home": LAST_HOME + 1}, "home 1024 of a limit must be the number of a shard"),
        ({"concurrency": 2, "burst": 3}, "burst 3 needs a rate; give rate= too"),
        ({"rate": 1, "per": 0}, "per 0 must be between 0.001 s"),
        ({"rate": 1, "per": "a minute"}, "per 'a minute' must be a number of seconds"),
        ({"rate": 1, "pause_on_retry_after": "no"}, "'no' of a limit must be True or False"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(options, words):
    with pytest.raises(InvalidError, match=words):
        Limit(**options)


def test_the_largest_numbers_that_are_allowed_are_taken():
    made = Limit(concurrency=MOST_COST, rate=MOST_RATE, burst=MOST_RATE, home=LAST_HOME)
    assert (made.concurrency, made.rate, made.home) == (MOST_COST, MOST_RATE, LAST_HOME)
    costs = {f"t{n}": MOST_COST for n in range(MOST_NAMES)}
    assert check_costs(costs) == costs


@pytest.mark.parametrize(
    ("limit", "most"),
    [(Limit(rate=5), 5), (Limit(rate=5, burst=3), 3), (Limit(concurrency=2), None)],
)
def test_one_job_may_cost_what_a_window_or_a_full_bucket_allows(limit, most):
    assert limit.most_cost == most


def test_a_window_may_be_a_timedelta_and_is_kept_as_seconds():
    assert Limit(rate=1, per=timedelta(minutes=1)) == Limit(rate=1, per=60.0)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (Limit(rate=60, per=60), "60 per 60 s"),
        (Limit(rate=60, per=3600, burst=10), "60 per 60 min in bursts of 10"),
        (Limit(concurrency=8), "8 at a time"),
        (Limit(rate=5, concurrency=8), "5 per 1 s, 8 at a time"),
        (Limit(rate=5, per=0.5), "5 per 0.5 s"),
        (Limit(rate=5, per=0.001), "5 per 0.001 s"),
        (Limit(rate=5, per=150), "5 per 150 s"),
        (Limit(rate=5, per=5400), "5 per 90 min"),
        (Limit(rate=5, per=172_800), "5 per 2 d"),
    ],
)
def test_a_limit_is_said_in_words(limit, words):
    assert str(limit) == words


def test_names_of_limits_may_be_families_but_not_those_of_jobs():
    assert check_limit_name("tenant:*") == "tenant:*"
    with pytest.raises(InvalidError, match="may have '\\*' only as its last character"):
        check_limit_name("a*b")
    with pytest.raises(InvalidError, match="is a pattern; a job names limits without"):
        check_costs({"tenant:*": 1})
    with pytest.raises(InvalidError, match="9 limits for one job; name at most 8"):
        check_costs({f"t{n}": 1 for n in range(9)})
    with pytest.raises(InvalidError, match="cost 0 of limit 'a' must be a whole number"):
        check_costs({"a": 0})
    for check in (check_limit_name, lambda name: check_costs({name: 1})):
        with pytest.raises(InvalidError, match="limit '' has 0 characters"):
            check("")
    assert costs_of(costs_text(check_costs({"b": 2, "a": 1}))) == (("a", 1), ("b", 2))
    assert (costs_text({}), costs_of(None)) == (None, ())


@pytest.mark.parametrize("text", ["", "x", "[]", '{"a":"b"}', '{"a":-1}', '{"a":1e30}', '{"":1}'])
def test_limits_that_another_program_spoilt_are_none(text):
    assert costs_of(text) == ()


def test_an_attempt_spends_of_declared_limits_and_of_those_of_its_job():
    check_spent(["tokens", "tenant:acme"], costs_text({"tokens": 1}), ["tenant:*"])
    with pytest.raises(InvalidError, match="limit 'token' is not declared"):
        check_spent(["tokens", "token"], costs_text({"tokens": 1}), ["tenant:*"])


def test_the_name_itself_covers_and_else_the_longest_family():
    names = ["tenant:*", "t*", "tenant:acme", "other"]
    assert covering("tenant:acme", names) == "tenant:acme"
    assert covering("tenant:beta", names) == "tenant:*"
    assert covering("tenant:beta", names[::-1]) == "tenant:*"
    assert covering("openai", names) is None
    assert covering("openai", [*names, "*"]) == "*"
    assert covering("tenant:", {"tenant:*"}) == "tenant:*"
    assert covering("tenant", {"tenant:*"}) is None


def test_what_was_asked_for_is_paused_and_what_obeys_a_retry_after():
    obeys = Limit(rate=1, pause_on_retry_after=True)
    names = [("a", obeys), ("b", Limit(rate=1)), ("c", None)]
    assert pauses_of([("z", 5.0)], 20.0, names) == [("z", 5.0), ("a", 20.0)]
    assert pauses_of([], None, names) == []


def test_permits_are_counted_and_only_an_end_makes_room():
    limit, state = Limit(concurrency=2), LimitState(used=2)
    assert room_at(limit, state, 1, NOW) == FOREVER
    state.used = 1
    assert room_at(limit, state, 5, NOW) == NOW
    assert room_at(None, LimitState(paused_until=NOW + 5), 1, NOW) == NOW + 5


def test_a_window_has_room_when_enough_of_it_is_over():
    limit, state = Limit(rate=3, per=10), LimitState()
    for second in (0, 1, 2):
        charge(limit, state, 1, NOW + second * SECOND)
    assert room_at(limit, state, 1, NOW + 3 * SECOND) == NOW + 10 * SECOND
    assert room_at(limit, state, 2, NOW + 3 * SECOND) == NOW + 11 * SECOND
    assert room_at(limit, state, 3, NOW + 12 * SECOND) == NOW + 12 * SECOND
    assert used_of(limit, state, NOW + 10 * SECOND) == 2
    assert idle_from(limit, state) == NOW + 12 * SECOND
    charge(limit, state, 1, NOW + 12 * SECOND)  # what has left the window is forgotten
    assert state.starts == [(NOW + 12 * SECOND, 1)]


def test_a_bucket_refills_evenly_and_remembers_a_debt():
    limit, state = Limit(rate=10, per=10, burst=5), LimitState()
    charge(limit, state, 5, NOW)
    assert room_at(limit, state, 1, NOW) == NOW + SECOND
    assert used_of(limit, state, NOW) == 5
    charge(limit, state, 10, NOW)
    assert room_at(limit, state, 1, NOW) == NOW + 11 * SECOND
    refund(limit, state, 10, NOW, NOW)
    assert room_at(limit, state, 1, NOW) == NOW + SECOND
    assert idle_from(limit, state) == NOW + 5 * SECOND


EVERY_FORM = [
    None,
    Limit(concurrency=1),
    Limit(rate=7, per=3),
    Limit(rate=1000, per=1),
    Limit(rate=2, per=60, burst=3),
    Limit(rate=50_000, burst=9),
]


@pytest.mark.parametrize("before", EVERY_FORM)
@pytest.mark.parametrize("after", EVERY_FORM)
def test_a_limit_that_replaces_another_counts_what_was_used_of_it(before, after):
    state = LimitState(starts=[])
    charge(before, state, 3, NOW)
    used = used_of(before, state, NOW)
    assert recount(before, after, state, NOW) == is_recounted(before, after)
    if before and after and before.rate and after.rate:
        assert used_of(after, state, NOW) == used == 3


def test_a_window_that_becomes_a_bucket_has_refilled_since_its_starts():
    limit, state = Limit(rate=4, per=10), LimitState(starts=[])
    for second in (0, 11, 12):
        charge(limit, state, 1, NOW + second * SECOND)
    assert recount(limit, Limit(rate=1, per=2, burst=5), state, NOW + 13 * SECOND)
    assert (state.starts, state.full_at) == ([], NOW + 15 * SECOND)


def test_a_start_that_has_just_left_its_window_is_not_in_the_bucket_that_replaces_it():
    state = LimitState(starts=[(NOW, 3), (NOW + 3 * SECOND, 1)])
    now = NOW + 10 * SECOND
    assert recount(Limit(rate=4, per=10), Limit(rate=1, per=2, burst=5), state, now)
    assert state.full_at == NOW + 5 * SECOND


def test_what_a_bucket_lacks_of_a_whole_start_is_lacking_in_the_next_bucket_too():
    state = LimitState(full_at=NOW + 3 * SECOND)
    assert recount(Limit(rate=1, per=2, burst=5), Limit(rate=1, burst=5), state, NOW)
    assert state.full_at == NOW + SECOND * 3 // 2


@pytest.mark.parametrize(
    ("window", "unit"),
    [(LONG_UNIT * 1000 - 1, LONG_UNIT - 0.001), (LONG_UNIT * 1000 + 1, LONG_UNIT + 1)],
)
def test_a_long_unit_refills_in_whole_microseconds_and_a_short_one_in_parts(window, unit):
    assert refill(Limit(rate=1000, per=window / SECOND, burst=7)) == unit


@pytest.mark.parametrize(
    ("window", "dear", "full", "left", "used"),
    [
        # Each unit is rounded up by itself, or the sum of all.
        (LONG_UNIT * 1000 + 500, 7 * (LONG_UNIT + 1), 7 * (LONG_UNIT + 1), 7 * LONG_UNIT + 6, 7),
        (LONG_UNIT * 1000 - 500, 7 * LONG_UNIT - 3, 7 * LONG_UNIT - 4, 6 * LONG_UNIT - 1, 7),
    ],
)
def test_units_of_a_bucket_are_rounded_alike_wherever_they_count(window, dear, full, left, used):
    limit = Limit(rate=1000, per=window / SECOND, burst=7)
    assert (price(limit, 7), allowance(limit)) == (dear, full)
    assert used_of(limit, LimitState(full_at=NOW + left), NOW) == used


def test_a_high_rate_counts_a_start_at_the_end_of_its_part():
    part = SECOND // PARTS
    for at in (NOW // part * part, NOW // part * part + 1):
        assert counted_at(Limit(rate=PARTS), at) == at
    assert counted_at(Limit(rate=PARTS + 1), part * 9) == part * 9
    assert counted_at(Limit(rate=PARTS + 1), part * 9 + 1) == part * 10


def test_a_cost_counts_as_no_more_than_a_limit_allows():
    assert bounded(Limit(rate=2), 5) == 2
    assert bounded(Limit(concurrency=2), 5) == 5


def test_starts_are_forgotten_one_by_one_as_they_leave_the_window():
    state = LimitState(starts=[(NOW + second * SECOND, 1) for second in range(3)])
    for left in (2, 1, 0):
        forget_starts(Limit(rate=9, per=10), state, NOW + (12 - left) * SECOND)
        assert len(state.starts) == left


def test_a_state_that_nothing_was_used_of_is_idle_from_the_beginning():
    assert idle_from(Limit(concurrency=1), LimitState()) == 0
    assert idle_from(None, LimitState(used=1)) == FOREVER


def test_a_full_bucket_that_becomes_a_window_has_counted_no_start():
    limit, state = Limit(rate=4, per=10, burst=3), LimitState(starts=[], full_at=NOW - SECOND)
    assert recount(limit, Limit(rate=4, per=10), state, NOW)
    assert state == LimitState(starts=[])


@pytest.mark.parametrize(
    ("rate", "per", "burst"),
    [
        (380, 1, 4),
        (3, 1, 2),
        (7, 60, 7),
        (999, 1, 40),
        (1001, 1, 40),
        (600_000, 1, 9000),
        (7, 1, 1),
    ],
)
@pytest.mark.parametrize("cost", [1, 3])
def test_a_bucket_lets_start_what_it_promises_and_no_more(rate, per, burst, cost):
    limit, state, now, starts = Limit(rate=rate, per=per, burst=burst), LimitState(), NOW, []
    cost = min(cost, burst)
    for _ in range(300):
        now = int(room_at(limit, state, cost, now))
        charge(limit, state, cost, now)
        starts.append(now)
    for first in range(0, 300, 20):
        for last in range(first, 300):
            spent, lasted = cost * (last - first + 1), (starts[last] - starts[first]) / SECOND
            assert spent <= burst + rate * lasted / per + 1e-9
    if rate < 1000:  # as many as it holds at once
        assert starts[burst // cost - 1] == NOW
        assert used_of(limit, LimitState(full_at=starts[0]), starts[0]) == 0
    # What it takes longer than it may is less than a thousandth, or a microsecond for each start.
    most = 300 * cost * per / rate * SECOND
    assert now - NOW <= most * 1.001 + 300


@pytest.mark.parametrize("after", [None, {"rate": 1, "per": 2, "burst": 1}])
def test_no_debt_counts_beyond_what_every_store_can_count(after):
    limit, state = Limit(rate=1, per=LONGEST_PER, burst=1), LimitState(starts=[])
    before = limit if after is None else Limit(rate=1, per=LONGEST_PER)
    for _ in range(3):
        charge(before, state, 10**15, NOW)
    assert recount(before, limit, state, NOW) == (after is not None)
    assert state.full_at == LATEST
    if after is not None:
        recount(limit, Limit(rate=1, per=LONGEST_PER, burst=2), state, NOW)
        recount(limit, Limit(**after), state, NOW)
    assert NOW < room_at(limit, state, 1, NOW) <= LATEST


def test_a_start_that_never_was_is_given_back_while_it_counts():
    limit, state = Limit(rate=2, per=10), LimitState()
    charge(limit, state, 1, NOW)
    charge(limit, state, 1, NOW + SECOND)
    refund(limit, state, 1, NOW + SECOND, NOW + 2 * SECOND)
    assert state.starts == [(NOW, 1), (NOW + SECOND, 0)]
    refund(limit, state, 1, NOW, NOW + 10 * SECOND)  # it has left the window
    refund(limit, state, 1, NOW + 5 * SECOND, NOW + 6 * SECOND)  # it was never counted
    assert state.starts == [(NOW, 1), (NOW + SECOND, 0)]
    for none in (None, Limit(concurrency=1)):
        charge(none, state, 1, NOW)
        refund(none, state, 1, NOW, NOW)
    assert state.starts == [(NOW, 1), (NOW + SECOND, 0)]


def test_a_high_rate_is_counted_in_parts_and_never_exceeded():
    limit, state = Limit(rate=PARTS * 10, per=1), LimitState()
    charge(limit, state, 1, NOW + 1)
    charge(limit, state, 1, NOW + 2)
    assert len(state.starts) == 1
    [(at, cost)] = state.starts
    assert (at >= NOW + 2, cost) == (True, 2)


def test_a_cost_above_what_the_limit_was_lowered_to_starts_when_nothing_is_used():
    assert room_at(Limit(rate=2, per=1), LimitState(), 5, NOW) == NOW
    assert room_at(Limit(rate=2, per=1, burst=2), LimitState(), 5, NOW) == NOW


def test_an_operator_wins_until_it_is_reset():
    declared, said = Limit(rate=60), Limit(rate=30)
    stored = StoredLimit().with_declared(declared)
    assert stored.with_set(said).in_force == said
    assert stored.with_set(said).with_set(None).in_force == declared


def test_a_view_says_what_is_used_and_when_there_is_room():
    limit, state = Limit(concurrency=1), LimitState(used=1, paused_until=NOW + 5 * SECOND)
    view = view_of("a", StoredLimit(limit), limit, state, waiting=3, now=1000.0)
    assert (view.running, view.waiting, view.used) == (1, 3, 0)
    assert (view.paused_until, view.room_at) == (1005.0, None)
    assert idle_from(limit, state) == FOREVER
    half = Limit(rate=2, per=10)
    begun = LimitState(starts=[(NOW, 1)])
    assert view_of("a", StoredLimit(half), half, begun, waiting=0, now=1000.0).room_at == 1000.0
    open_ = view_of("a", StoredLimit(), None, LimitState(), waiting=0, now=1000.0)
    assert (open_.paused_until, open_.room_at) == (None, 1000.0)


@pytest.mark.parametrize("weight", [0, -1, 1001, True])
def test_a_weight_that_would_starve_somebody_is_refused(weight):
    with pytest.raises(InvalidError, match="of fairness key 'acme' must be a number"):
        QueueSettings(weights=(("acme", weight),))


def test_weights_that_starve_nobody_are_kept():
    assert QueueSettings(weights=(("acme", 0.5), ("big", 3))).weights[1] == ("big", 3)
    said = {"b": MOST_WEIGHT, "a": LEAST_WEIGHT, "": 2}
    assert listed_weights(said) == (("", 2), ("a", LEAST_WEIGHT), ("b", MOST_WEIGHT))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([("a", 1)], "must be a dict of weights by fairness key"),
        ({"a": "2"}, "weight '2' of fairness key 'a' must be a number"),
        ({"a" * 129: 1}, "fairness key 'aaaa.* has 129 characters"),
    ],
)
def test_weights_that_are_none_are_refused(weights, words):
    with pytest.raises(InvalidError, match=words):
        listed_weights(weights)


def test_shares_are_by_weight_within_a_lane():
    here, there = Lane("q", "*", 0), Lane("q", "EU", 1)
    views = [KeyView(here, "a", 9), KeyView(here, "b", 1, 2.0), KeyView(there, "a", 1)]
    assert [(each.key, each.lane, each.share) for each in shares(views, {"b": 3.0})] == [
        ("a", "fresh", 0.25),
        ("b", "fresh", 0.75),
        ("a", "region-retry", 1.0),
    ]
    assert [each.weight for each in shares(views, {"b": 3.0})] == [1.0, 3.0, 1.0]
