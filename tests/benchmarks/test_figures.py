"""The arithmetic of the comparison with peers."""

import pytest

from benchmarks.bars import share
from benchmarks.contender import Notes
from benchmarks.contenders import CONTENDERS
from benchmarks.environments import PEERS
from benchmarks.figures import over_rounds, percentile, spread, times_ours
from benchmarks.measures import Sizes
from benchmarks.tables import cell


@pytest.mark.parametrize(
    ("values", "share_of", "expected"),
    [
        ([5.0], 0.99, 5.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([1.0, 2.0], 0.5, 1.5),
        (list(range(101)), 0.99, 99.0),
        ([1.0, 2.0, 3.0], 1.0, 3.0),
        ([1.0, 2.0, 3.0], 0.0, 1.0),
    ],
)
def test_a_percentile_lies_between_its_neighbours(values, share_of, expected):
    assert percentile(values, share_of) == pytest.approx(expected)


def test_nothing_measured_has_no_percentile():
    with pytest.raises(ValueError, match="measure at least one"):
        percentile([], 0.5)


def test_a_spread_is_in_milliseconds_and_may_be_early():
    assert spread("late", [-0.25, 0.0, 0.25]) == {"late_p50_ms": 0.0, "late_p99_ms": 245.0}


def test_a_median_ignores_the_round_in_which_the_machine_was_busy():
    assert over_rounds([{"drain": 100.0}, {"drain": 7.0}, {"drain": 101.0}]) == {"drain": 100.0}


def test_a_figure_that_most_rounds_have_as_words_stays_words():
    assert over_rounds([{"s": 1.0}, {"s": "> 120 s"}, {"s": "lost"}]) == {"s": "lost"}
    assert over_rounds([{"s": 1.0}, {"s": 3.0}, {"s": "> 120 s"}]) == {"s": 2.0}


def test_a_figure_of_one_round_stands_for_all():
    assert over_rounds([{"a": 1.0}, {"a": 3.0, "crash_s": 16.0}]) == {"a": 2.0, "crash_s": 16.0}


def test_a_ratio_needs_two_numbers_and_something_to_divide_by():
    assert times_ours(10.0, 5.0) == 0.5
    assert times_ours(0.0, 5.0) is None
    assert times_ours(None, 5.0) is None
    assert times_ours(10.0, "> 10 s") is None


def test_a_rate_stands_beside_its_ratio_and_a_latency_alone():
    ours: dict[str, float | str] = {"drain_per_s": 1000.0, "late_p50_ms": 1.0, "late_p99_ms": 2.0}
    theirs: dict[str, float | str] = {"drain_per_s": 250.0, "late_p50_ms": 800.0}
    theirs["late_p99_ms"] = "> 10 s"
    assert cell(ours, theirs, ("drain_per_s",)) == "250 (0.25)"
    assert cell(ours, ours, ("drain_per_s",)) == "1,000"
    assert cell(ours, theirs, ("late_p50_ms", "late_p99_ms")) == "800 / > 10 s"
    assert cell(ours, {}, ("drain_per_s",)) == ""


def test_a_scaled_size_is_never_nothing():
    assert Sizes(1.0).of(2000, 20) == 2000
    assert Sizes(0.05).of(2000, 20) == 100
    assert Sizes(0.0001).of(2000, 20) == 20


def test_a_bar_is_as_long_as_its_share():
    assert share(50.0, 100.0, logarithmic=False) == 0.5
    assert share(-5.0, 100.0, logarithmic=False) == 0.0
    assert share(100.0, 100.0, logarithmic=True) == 1.0
    assert share(10.0, 1000.0, logarithmic=True) == pytest.approx(0.5)
    assert share(-20.0, 100.0, logarithmic=True) == 0.0


def test_a_note_is_read_when_its_line_is_whole(tmp_path):
    path = tmp_path / "notes"
    notes = Notes(path)
    notes.read()
    path.write_text("a start 1.0\na en")
    notes.read()
    assert notes.of == {"a": [("start", 1.0)]}
    with path.open("a") as file:
        file.write("d 2.5\n")
    notes.read()
    assert notes.times("a", "end") == [2.5]
    assert notes.wait_for("a", "start", within=0.0)
    assert not notes.wait_for("a", "start", within=0.0, times=2)


def test_every_contender_has_its_script_and_its_pins():
    for contender in CONTENDERS:
        suffix, pins = (".cjs", ".json") if contender.node else (".py", ".txt")
        assert (PEERS / f"with_{contender.peer}{suffix}").exists()
        assert contender.peer == "mulligan" or (PEERS / f"{contender.peer}{pins}").exists()


def test_contenders_are_told_apart_by_their_names():
    keys = [contender.key for contender in CONTENDERS]
    assert len(set(keys)) == len(keys)
