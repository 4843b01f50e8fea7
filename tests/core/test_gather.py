"""What arrives at a gathering job: results, and failures as values; and how far it has come."""

import msgspec
import pytest
from msgspec.structs import replace

from mulligan.core.gather import (
    Failure,
    Progress,
    arrives_at,
    as_read,
    cancelled_value,
    failure_from,
    failure_in,
    failure_value,
    failures_of,
    is_frozen,
    lost_value,
    progress_after,
    progress_of,
    purged_value,
    raw_results,
    results_of,
)
from mulligan.core.job import EXPIRED, Attempt
from tests.core.jobs import WAITING

FAILED = Failure("a", "ValueError", "boom", 3)


def test_a_failure_is_read_as_it_was_written():
    value = failure_value(FAILED)
    assert failure_in(value) == FAILED
    assert failure_from(FAILED) is FAILED


@pytest.mark.parametrize("value", [None, b"1", b'{"a":1}'])
def test_a_result_is_no_failure(value):
    assert failure_in(value) is None


def test_what_begins_as_a_failure_and_is_none_is_a_result():
    value = failure_value(FAILED)
    assert failure_in(value[:-3]) is None
    mark = next(iter(msgspec.json.decode(value)))
    assert failure_from({mark: 1}) is None
    assert failure_from({"other": 1}) is None
    assert failure_from([mark]) is None
    assert failure_from({**msgspec.json.decode(value), "other": 1}) is None
    assert failure_from(msgspec.json.decode(value)) == FAILED


def test_a_failure_says_how_its_member_ended_and_after_how_many_attempts():
    last = Attempt(4, 0, "EU", "w1", 100.0, "ValueError", "boom")
    for value, failure in (
        (lost_value("a", last), Failure("a", "ValueError", "boom", 4)),
        (cancelled_value("a", "enough", 2, ran=True), Failure("a", "Cancelled", "enough", 3)),
        (cancelled_value("a", "enough", 2, ran=False), Failure("a", "Cancelled", "enough", 2)),
        (cancelled_value("a", EXPIRED, 0, ran=False), Failure("a", "Expired", EXPIRED, 0)),
        (purged_value("a", "ValueError: boom", 2), Failure("a", "Purged", "ValueError: boom", 3)),
        (purged_value("a", None, 0), Failure("a", "Purged", "", 1)),
    ):
        assert failure_in(value) == failure


def test_an_arrival_reads_the_same_however_a_store_has_spelled_it():
    spaced = failure_value(FAILED).replace(b',"', b', "')
    assert as_read(spaced) == failure_value(FAILED)
    assert (as_read(b"1"), as_read(None)) == (b"1", None)


def test_a_failure_arrives_where_it_is_asked_for_and_is_only_noted_elsewhere():
    assert arrives_at(2, "done", return_exceptions=False) == 2
    assert arrives_at(2, "failed", return_exceptions=True) == 2
    assert arrives_at(2, "failed", return_exceptions=False) == -3
    assert arrives_at(0, "cancelled", return_exceptions=False) == -1


def test_a_gathering_job_is_called_with_results_in_order_and_not_with_what_is_noted():
    arrived = {2: b"3", 0: None, -2: failure_value(FAILED)}
    assert list(results_of(arrived).items()) == [(0, None), (2, b"3")]
    assert bytes(raw_results(arrived)) == b"[null,3]"


def test_failures_are_told_with_the_index_of_their_member():
    failed = failure_value(FAILED)
    assert failures_of({5: failed, -3: failed, 1: b"1", 0: failed}) == [
        (0, FAILED),
        (2, FAILED),
        (5, FAILED),
    ]


def test_progress_counts_failures_as_arrived_only_where_they_arrive():
    job = replace(WAITING, awaits=3, members_failed=2, members_cancelled=1)
    assert progress_of(job, 10) == Progress(10, 7, 2, 1)
    arriving = progress_of(replace(job, return_exceptions=True), 10)
    assert arriving == Progress(10, 4, 2, 1)
    assert (arriving.ended, arriving.open) == (7, 3)


def test_a_gather_counts_no_more_once_it_was_cancelled_before_all_arrived():
    assert not is_frozen(replace(WAITING, awaits=3))
    assert is_frozen(replace(WAITING, status="cancelled", awaits=3))
    assert not is_frozen(replace(WAITING, status="cancelled", awaits=0))


@pytest.mark.parametrize(
    ("counted", "members", "progress"),
    [
        # (done, failed, cancelled) when it was cancelled, what is stored of its members, and now
        ((3, 0, 0), ["done"] * 3 + ["cancelled"] * 7, (3, 0, 7)),
        ((0, 0, 0), ["cancelled", "pending", "processing", "done"], (1, 0, 1)),
        # one that had failed was replayed since
        ((0, 1, 0), ["done", "cancelled"], (1, 0, 1)),
        # some were deleted since: those that had arrived are known, the others are not
        ((3, 1, 0), ["done", None, None, None, None, "cancelled"], (3, 1, 2)),
        ((5, 0, 0), [None, None], (2, 0, 0)),
    ],
)
def test_a_cancelled_gather_is_as_far_as_its_members_are(counted, members, progress):
    found = progress_after(Progress(len(members), *counted), members)
    assert found == Progress(len(members), *progress)
    assert found.open == sum(each in ("pending", "processing") for each in members)
