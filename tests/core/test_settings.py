"""Settings of workers and of queues, and every value that they refuse."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.errors import InvalidError, StoreError
from mulligan.core.facts import DEFAULT_QUEUE, Facts, QueueSettings, Region, read_settings
from mulligan.core.fetch import Balanced, Capped, Fifo, RetryFirst
from mulligan.core.plan import Rate
from mulligan.core.settings import Settings, check_batch, kept_for
from tests.core.refusal import refused
from tests.core.strategies import policies


def test_the_defaults_are_those_that_are_promised():
    settings = Settings()
    assert (settings.lease, settings.beat) == (15, 5)
    assert settings.payload_limit == settings.result_limit == 256 * 1024
    assert settings.keep_done == 3600


def test_a_lease_outlasts_a_beat():
    assert Settings(lease=5.1, beat=5).lease == 5.1
    for lease in (5, 4):
        with refused(f"lease {lease}s must be longer than beat 5s; raise lease= or lower beat="):
            Settings(lease=lease, beat=5)


def test_a_worker_beats():
    with refused("beat 0s must be above 0"):
        Settings(beat=0)


@pytest.mark.parametrize(
    "name", ["lease", "beat", "drain_timeout", "keep_done", "unknown_task_delay"]
)
def test_durations_among_the_settings_are_durations(name):
    with refused(f"{name} -1 must be between 0 s and 3153600000 s"):
        replace(Settings(), **{name: -1})


@pytest.mark.parametrize(
    "name", ["concurrency", "abandoned_limit", "payload_limit", "result_limit"]
)
def test_counts_among_the_settings_are_at_least_one(name):
    with refused(f"{name} 0 must be at least 1"):
        replace(Settings(), **{name: 0})


def test_threads_are_at_least_one_or_by_default():
    assert Settings().threads is None
    with refused("threads 0 must be at least 1; None is a few more than processors"):
        Settings(threads=0)


def test_a_pool_has_at_least_one_process_or_one_per_processor():
    with pytest.raises(InvalidError, match="pool_size 0 must be at least 1; None is one per"):
        Settings(pool_size=0)
    assert Settings(pool_size=1).pool_size == 1


@pytest.mark.parametrize("nice", [-1, 20])
def test_a_pool_is_as_nice_as_a_process_can_be(nice):
    with refused(f"pool_nice {nice} must be from 0 to 19, as nice has it"):
        Settings(pool_nice=nice)
    assert (Settings(pool_nice=0).pool_nice, Settings(pool_nice=19).pool_nice) == (0, 19)


def test_settings_may_be_as_small_as_their_limits():
    least = Settings(beat=0.5, concurrency=1, abandoned_limit=1, payload_limit=1, result_limit=1)
    assert (least.beat, least.concurrency) == (0.5, 1)


def test_a_batch_has_at_most_1000_entries():
    check_batch(1000)
    with refused("a batch of 1001 is over the limit of 1000; send it in parts"):
        check_batch(1001)


def test_a_budget_is_a_gate_that_retries_pass():
    budget = Budget(100, per=timedelta(minutes=1))
    assert budget.retry_limit("questions") == Rate("budget:questions", 100, 60.0)
    assert budget.fresh_limit("questions") is None


def test_a_budget_of_retries_is_by_the_minute_unless_said_otherwise():
    assert Budget(100).retry_limit("questions").per == 60


def test_a_ratio_counts_fresh_starts_and_always_allows_ten_a_minute():
    budget = Budget(ratio=0.2)
    assert budget.retry_limit("questions") == Rate(
        "budget:questions", 10, 60.0, ratio=0.2, of="fresh:questions"
    )
    assert budget.fresh_limit("questions") == Rate("fresh:questions", None, 60.0)


@pytest.mark.parametrize(("limit", "ratio"), [(None, None), (100, 0.2)], ids=["neither", "both"])
def test_a_budget_is_a_limit_or_a_ratio(limit, ratio):
    with refused(f"budget limit {limit!r} and ratio {ratio!r}: give exactly one"):
        Budget(limit, ratio=ratio)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_budget_lets_some_retry_through(limit):
    with refused(f"budget limit {limit} must be at least 1; a queue can be paused"):
        Budget(limit)


@pytest.mark.parametrize("ratio", [0, -0.1, 1.1, float("nan")])
def test_a_ratio_is_a_share(ratio):
    with refused(f"budget ratio {ratio!r} must be above 0 and at most 1"):
        Budget(ratio=ratio)


def test_a_budget_counts_over_some_time():
    with refused("budget per 0 must be between 0.001 s and 3153600000 s"):
        Budget(100, per=0)


def test_a_queue_is_balanced_and_has_no_budget_unless_told():
    assert Facts().queue("questions") == DEFAULT_QUEUE == QueueSettings(Balanced(), None, 2.0)


def test_a_queue_has_the_settings_that_are_stored_for_it():
    settings = QueueSettings(Capped(4))
    facts = Facts(queues={"questions": settings})
    assert facts.queue("questions") == settings
    assert facts.queue("answers") == DEFAULT_QUEUE


def test_grace_is_a_duration():
    assert QueueSettings(grace=timedelta(seconds=3)).grace_seconds == 3
    assert QueueSettings(grace=0).grace_seconds == 0
    with refused("grace -1 must be between 0 s and 3153600000 s"):
        QueueSettings(grace=-1)


def test_a_budget_is_refused_where_no_lane_would_keep_it():
    assert QueueSettings(RetryFirst(), Budget(100)).budget == Budget(100)
    with refused("a retry budget needs a retry lane, and fifo has none; use retry-first"):
        QueueSettings(Fifo(), Budget(100))


budgets = st.builds(Budget, st.integers(1, 10**6), st.floats(0.001, 10**6)) | st.builds(
    Budget, ratio=st.floats(0, 1, exclude_min=True)
)


@given(policies, st.none() | budgets, st.floats(0, 10**6))
def test_settings_of_a_queue_survive_json(policy, budget, grace):
    settings = QueueSettings(policy, None if policy == Fifo() else budget, grace)
    assert msgspec.json.decode(msgspec.json.encode(settings), type=QueueSettings) == settings


def test_settings_of_a_queue_that_cannot_be_read_are_refused_with_its_name():
    written = msgspec.json.encode(QueueSettings(Capped(4)))
    assert read_settings("questions", written) == QueueSettings(Capped(4))
    with pytest.raises(StoreError, match="settings of queue 'questions' cannot be read"):
        read_settings("questions", b'{"policy":{"type":"unheard of"}}')


def test_a_region_serves_the_queues_of_its_live_workers():
    facts = Facts(regions=(Region("EU"), Region("US", frozenset({"a", "b"}))))
    assert facts.serving("a") == ["US"]
    assert facts.serving("c") == []
    assert [region.live for region in facts.regions] == [False, True]


def test_a_job_is_kept_for_whole_seconds_and_a_lease_at_least():
    assert [kept_for(each) for each in (0, 15.2, timedelta(days=1))] == [15, 16, 86_400]
    assert kept_for(0, lease=30.5) == 31
    assert kept_for(timedelta(days=36_500)) == 2**31 - 1
    with pytest.raises(InvalidError, match="keep -1 must be between 0 s"):
        kept_for(-1)
