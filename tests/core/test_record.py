"""What may be recorded, and what is shown of it."""

import msgspec
import pytest
from msgspec.structs import replace

from mulligan.core.checks import DEPTH_LIMIT
from mulligan.core.errors import InvalidError
from mulligan.core.record import (
    SHOWN_LIMIT,
    Checkpoint,
    LogLine,
    Progress,
    Record,
    RecordKind,
    Records,
    Step,
    add_record,
    adopted_records,
    checked_value,
    in_order,
    is_left_out,
    kind_of,
    line_value,
    progress_value,
    shown,
    stamped,
    step_key,
)
from mulligan.core.settings import LINE_LIMIT, LOG_LIMIT, RECORD_LIMIT


def test_a_value_that_is_too_deep_is_refused():
    deep = b"[" * (DEPTH_LIMIT + 1) + b"]" * (DEPTH_LIMIT + 1)
    with pytest.raises(InvalidError, match="the checkpoint"):
        checked_value("the checkpoint", deep)


def test_what_another_program_spoilt_is_left_out():
    records = [Record("step", 1, b"nonsense", "cut"), Record("progress", 2, b"[]")]
    found = shown(records)
    assert (found.steps, found.progress) == ([], None)


def test_records_are_shown_each_kind_by_itself():
    records = [
        Record("step", 1, b"[1]", "pay", 3, 50.0, 3),
        Record("step", 2, None, "long", 3, 51.0, 9000),
        Record("log", 3, b'"resized"', token=3, at=52.0),
        Record("checkpoint", 4, b"7", token=3, at=53.0, size=1),
        Record("progress", 5, b'{"done":2,"of":8}', token=3, at=54.0),
    ]
    assert shown(records) == Records(
        [Step("pay", 50.0, 3, [1]), Step("long", 51.0, 9000)],
        Progress(2, 8, at=54.0),
        [LogLine(52.0, "resized")],
        Checkpoint(53.0, 1, 7),
    )


@pytest.mark.parametrize(
    ("kind", "stays"), [("progress", b"2"), ("checkpoint", b"2"), ("step", b"1")]
)
def test_of_progress_and_checkpoints_the_newest_stays_and_of_a_step_the_first(
    kind: RecordKind, stays: bytes
):
    kept: dict[str, Record] = {}
    for number, value in ((1, b"1"), (2, b"2")):
        add_record(kept, Record(kind, number, value, "pay", token=1))
    assert [each.value for each in kept.values()] == [stays]


def test_records_come_in_order_and_long_values_stay_where_they_are():
    line, step = Record("log", 1, b"1", token=1, size=1), Record("step", 2, b"22", "b", 1, size=2)
    assert in_order([step, line], None) == [line, step]
    assert in_order([step, line], 1) == [line, replace(step, value=None)]


@pytest.mark.parametrize(
    ("kind", "may_be"), [("step", True), ("checkpoint", True), ("log", False), ("progress", False)]
)
def test_only_long_steps_and_checkpoints_are_left_out(kind: RecordKind, may_be):
    assert is_left_out(kind, SHOWN_LIMIT + 1, SHOWN_LIMIT) == may_be
    assert not is_left_out(kind, SHOWN_LIMIT, SHOWN_LIMIT)
    assert not is_left_out(kind, SHOWN_LIMIT + 1, None)


def test_a_line_or_progress_without_a_value_is_not_shown():
    found = shown([Record("log", 1, None, size=9), Record("progress", 2, None, size=9)])
    assert (found.log, found.progress) == ([], None)


def test_the_key_of_a_step_is_that_of_its_job_and_name():
    assert step_key("A-q1", "charge") == "A-q1/charge"


def test_the_key_of_a_record_says_its_kind_and_the_name_of_a_step():
    kind: RecordKind
    for kind, name in (("step", "pay"), ("log", ""), ("progress", ""), ("checkpoint", "")):
        record = Record(kind, 2, b"1", name, token=7)
        assert kind_of(record.key) == (kind, name)
    assert Record("step", 1, b"1", "pay").key != Record("step", 1, b"1", "ship").key
    lines = [Record("log", number, b"1", token=token).key for token, number in ((9, 10), (10, 2))]
    assert lines == sorted(lines)


def test_a_stored_record_has_its_token_its_time_and_its_size():
    assert stamped(Record("step", 3, b"[1]", "pay"), 7, 100.0) == Record(
        "step", 3, b"[1]", "pay", 7, 100.0, 3
    )
    assert stamped(Record("step", 3, None, "pay"), 7, 100.0).size == 0


def test_the_records_of_a_job_that_moves_are_numbered_anew_and_stay_with_their_attempts():
    records = [Record("step", 5, b"1", "a", 3, 50.0, 1), Record("log", 9, b"2", token=5)]
    moved = adopted_records(records, 5, 4096 + 5)
    assert [(e.number, e.token, e.at) for e in moved] == [(1, 4096 + 3, 50.0), (2, 4096 + 5, 0.0)]
    assert [e.token for e in adopted_records(records, 4, 9)] == [8, 9], "never a later one"


def test_the_first_record_of_a_step_stays_and_the_newest_of_the_others():
    kept: dict[str, Record] = {}
    for token, number in ((1, 1), (1, 2), (2, 1)):
        for kind in ("step", "checkpoint"):
            add_record(kept, Record(kind, number, b"1", "pay", token))
    add_record(kept, Record("checkpoint", 9, b"1", "pay", 1))
    assert [each.order for each in kept.values()] == [(1, 1), (2, 1)]


def test_the_newest_log_lines_stay():
    kept: dict[str, Record] = {}
    for number in range(LOG_LIMIT + 2):
        add_record(kept, Record("log", number, b"1"))
    assert [each.number for each in kept.values()] == list(range(2, LOG_LIMIT + 2))


@pytest.mark.parametrize(
    ("done", "of", "share"),
    [(1, None, None), (1, 0, None), (1, 4, 0.25), (9, 4, 1.0), (-1, 4, 0.0)],
)
def test_the_part_that_is_done_lies_between_nothing_and_all(done, of, share):
    assert Progress(done, of).share == share


def test_a_value_that_is_too_long_is_refused():
    longest = b"1" * RECORD_LIMIT
    assert checked_value("the result", longest) == longest
    with pytest.raises(InvalidError, match=r"the result has .* bytes"):
        checked_value("the result", longest + b"1")


def test_progress_is_numbers_and_a_note():
    assert msgspec.json.decode(progress_value(1, None, None)) == {
        "done": 1,
        "of": None,
        "note": None,
    }
    noted = msgspec.json.decode(progress_value(1.5, 3, "x" * (LINE_LIMIT + 1)))
    assert noted == {"done": 1.5, "of": 3, "note": "x" * LINE_LIMIT}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((None, 3, None), "progress None must be a finite number"),
        (("1", 3, None), "progress '1' must be"),
        ((True, 3, None), "progress True must be"),
        ((float("nan"), None, None), "progress nan must be"),
        ((1, float("inf"), None), "of inf must be"),
        ((1, 0, None), "of 0 must be above 0"),
        ((1, 3, 4), "note 4 must be text"),
    ],
)
def test_progress_that_says_nothing_is_refused(said, words):
    with pytest.raises(InvalidError, match=words):
        progress_value(*said)


def test_a_log_line_is_text_and_is_shortened():
    assert msgspec.json.decode(line_value("x" * (LINE_LIMIT + 1))) == "x" * LINE_LIMIT
    with pytest.raises(InvalidError, match="log line 4 must be text"):
        line_value(4)
