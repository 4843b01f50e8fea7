"""Settings that two apps declare for one store, and where they differ."""

from datetime import timedelta

from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.declared_settings import declared_settings, disputes
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped, RetryFirst
from mulligan.core.known_tasks import LIVE_WITHIN, Registration
from mulligan.core.limits import Limit

MAIL = QueueSettings(RetryFirst(), Budget(limit=100, per=timedelta(minutes=1)), weights=(("a", 2),))
MINE = Registration(
    "ann", 1000.0, ("mail",), {}, settings=declared_settings({"mail": MAIL}, {"openai": Limit(8)})
)


def theirs(mail: QueueSettings = MAIL, **limits: Limit) -> Registration:
    settings = declared_settings({"mail": mail}, limits)
    return Registration("bob", 1000.0, ("other",), {}, settings=settings)


def test_what_an_app_declares_is_written_in_words():
    limits = {"openai": Limit(8, rate=60, per=60, pause_on_retry_after=True)}
    ratio = QueueSettings(budget=Budget(ratio=0.2))
    assert declared_settings({"mail": MAIL, "ask": ratio}, limits) == {
        "policy of queue mail": "retry-first",
        "retry budget of queue mail": "100 per 60 s",
        "grace of queue mail": "2 s",
        "weights of queue mail": "a=2",
        "policy of queue ask": "balanced",
        "retry budget of queue ask": "0.2 of fresh starts",
        "grace of queue ask": "2 s",
        "weights of queue ask": "none",
        "limit openai": "60 per 60 s, 8 at a time, paused by Retry-After",
    }


def test_what_two_apps_declare_alike_or_one_alone_is_no_dispute():
    same = QueueSettings(RetryFirst(), Budget(limit=100), weights=(("a", 2.0),))
    assert disputes([MINE, theirs(same, other=Limit(1))], 1001.0) == []


def test_each_setting_that_differs_is_named_with_both_workers():
    other = QueueSettings(Capped(3), grace=5)
    said = disputes([theirs(other, openai=Limit(9)), MINE], 1001.0)
    assert [each.partition(", and the one that starts last")[0] for each in said] == [
        "grace of queue mail is 2 s to worker ann and 5 s to worker bob",
        "limit openai is 8 at a time to worker ann and 9 at a time to worker bob",
        "policy of queue mail is retry-first to worker ann and capped(3) to worker bob",
        "retry budget of queue mail is 100 per 60 s to worker ann and none to worker bob",
        "weights of queue mail is a=2 to worker ann and none to worker bob",
    ]


def test_a_dispute_of_three_is_said_once_and_one_with_a_worker_that_is_gone_is_not():
    other = theirs(openai=Limit(9))
    assert len(disputes([MINE, other, replace(other, worker="eve")], 1001.0)) == 1
    assert disputes([MINE, replace(other, left=True)], 1001.0) == []
    assert disputes([MINE, other], 1000.0 + LIVE_WITHIN) == []


def test_many_weights_are_told_apart_without_being_listed():
    weights = tuple((f"customer-{number}", 2.0) for number in range(100))
    one, other = (replace(MAIL, weights=weights[:most]) for most in (99, 100))
    [said] = disputes([theirs(one), replace(theirs(other), worker="eve")], 1001.0)
    assert said.startswith("weights of queue mail is 99 (")
    assert len(said) < 300


def test_workers_that_declare_other_settings_have_a_note_of_their_own():
    assert theirs().note != theirs(QueueSettings()).note
