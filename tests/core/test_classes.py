"""Which failures a policy retries, by the names of exception classes."""

import msgspec
import pytest

from mulligan.core.checks import CLASS_NAME_LIMIT, CLASSES_LIMIT, class_names, type_name
from mulligan.core.decide import decide
from mulligan.core.errors import InvalidError, JobFailedError, StoreError, StoreUnavailableError
from mulligan.core.facts import Facts
from mulligan.core.job import Claim
from mulligan.core.outcome import Again, Dead, Failed, Lost
from mulligan.core.retry import Retry, encode_retry
from tests.contract.builders import body

TIMED_OUT = Failed("httpx.ReadTimeout", "late", classes=("httpx.ReadTimeout", "httpx.HTTPError"))


def claimed(retry: Retry | None = None) -> Claim:
    """The first attempt of a job with this policy."""
    written = body(retry)
    return Claim(
        "j", 1, "q", "ask", written, "US", 0, "US", 0, 0.0, 0, 0, 0, "w", "US", 0.0
    )  # fmt: skip


def outcome(retry: Retry, result: Failed | Lost) -> type:
    """What becomes of a job with this policy."""
    return type(decide(claimed(retry=retry), result, Facts(), 0.5))


def test_classes_are_stored_as_names_given_as_classes_or_as_names():
    retry = Retry(on=(TimeoutError, "httpx.ReadTimeout"), never=JobFailedError)
    assert retry.on == ("TimeoutError", "httpx.ReadTimeout")
    assert retry.never == ("mulligan.core.errors.JobFailedError",)
    assert Retry(on="builtins.OSError").on == ("OSError",)
    assert Retry(on=[OSError]).on == ("OSError",)


def test_a_policy_stays_data():
    retry = Retry(2, on=(TimeoutError,), never="ValueError")
    written = encode_retry(retry)
    assert msgspec.json.decode(written)["on"] == ["TimeoutError"]
    assert msgspec.json.decode(written, type=Retry) == retry
    assert msgspec.json.decode(b'{"on":"OSError"}', type=Retry) == Retry(on=OSError)
    assert b"never" not in encode_retry(Retry())


def test_an_exception_is_matched_over_its_bases():
    assert class_names(ConnectionResetError) == (
        "ConnectionResetError",
        "ConnectionError",
        "OSError",
        "Exception",
        "BaseException",
    )
    reset = Failed("ConnectionResetError", "x", classes=class_names(ConnectionResetError))
    assert outcome(Retry(on=OSError), reset) is Again
    assert outcome(Retry(on=TimeoutError), reset) is Dead
    assert outcome(Retry(on="httpx.HTTPError"), TIMED_OUT) is Again


def test_nothing_given_means_any_exception():
    assert outcome(Retry(), TIMED_OUT) is Again


def test_never_wins():
    assert outcome(Retry(never="httpx.HTTPError"), TIMED_OUT) is Dead
    assert outcome(Retry(on="httpx.ReadTimeout", never="httpx.HTTPError"), TIMED_OUT) is Dead
    assert outcome(Retry(never=ValueError), TIMED_OUT) is Again


@pytest.mark.parametrize("result", [Failed("Refused", "no", refused="1"), Lost()])
def test_what_is_no_exception_is_retried_whatever_on_says(result):
    assert outcome(Retry(on=TimeoutError), result) is Again
    assert outcome(Retry(never=("Refused", "Lost")), result) is Dead


def test_a_failure_waits_for_at_least_as_long_as_it_asks():
    asks = Failed("Busy", "x", least_delay=30.0)
    again = decide(claimed(), asks, Facts(), 0.5)
    assert isinstance(again, Again)
    assert (again.delay, again.failure.delay) == (30.0, 30.0)
    soon = decide(claimed(), Failed("Busy", "x", least_delay=0.001), Facts(), 0.5)
    assert isinstance(soon, Again)
    assert soon.delay > 0.001


@pytest.mark.parametrize("given", [int, 3, ("TimeoutError", 4), object()])
def test_what_is_no_exception_class_is_refused(given):
    with pytest.raises(InvalidError, match="no exception class; give classes"):
        Retry(never=given)


@pytest.mark.parametrize(
    "given", ["", "x" * (CLASS_NAME_LIMIT + 1), "a\nb", ["E"] * (CLASSES_LIMIT + 1)]
)
def test_names_have_bounds(given):
    with pytest.raises(InvalidError):
        Retry(on=given)


def test_a_class_that_cannot_be_named_is_an_exception():
    class Meta(type):
        @property
        def __module__(cls) -> str:  # type: ignore[override]
            raise RuntimeError

    assert type_name(Meta("Odd", (Exception,), {})) == "Exception"


def test_a_predicate_is_kept_for_the_worker_to_ask():
    def busy(error: Exception) -> bool:
        return "busy" in str(error)

    assert Retry(on=busy).on is busy


def test_a_failure_of_the_store_under_a_task_is_retried_whatever_is_named():
    classes = class_names(StoreUnavailableError)
    assert Retry(on=TimeoutError).covers(classes[0], classes)
    assert not Retry(on=TimeoutError, never=StoreError).covers(classes[0], classes)


@pytest.mark.parametrize("length", [1, CLASS_NAME_LIMIT])
def test_the_shortest_and_the_longest_name_of_a_class_are_taken(length):
    assert Retry(on="x" * length).on == ("x" * length,)
