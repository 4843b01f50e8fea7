"""The chart is well-formed, and shows what happened."""

from xml.etree import ElementTree as ET

import pytest

from mulligan.sim import chart, page
from mulligan.sim.svg import count_ticks, time_ticks
from tests.sim.kit import QUICK, play, play_builtin

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*runs):
    return ET.fromstring(chart(runs))  # noqa: S314 - our own words


def of_kind(picture, name):
    return [each for each in picture.iter() if name in each.get("class", "").split()]


def test_there_is_one_bar_for_each_attempt_in_the_colour_of_its_ending():
    run = play_builtin("poison-job")
    picture = drawn(run)
    bars = of_kind(picture, "attempt")
    assert len(bars) == len(run.log.attempts)
    assert len([bar for bar in bars if "crashed" in bar.get("class", "")]) == 4
    assert len([bar for bar in bars if "retry" in bar.get("class", "").split()]) == 3


def test_the_length_of_a_bar_is_its_duration():
    bars = of_kind(drawn(play_builtin("timeline-4")), "attempt")
    widths = {float(bar.get("width", 0)) for bar in bars}
    assert max(widths) - min(widths) < 0.02


def test_several_policies_are_drawn_on_one_scale_of_time():
    runs = [play_builtin("timeline-1", policy) for policy in ("retry-first", "fifo")]
    picture = drawn(*runs)
    said = [text.text for text in picture.iter(f"{SVG}text")]
    assert {"retry-first", "fifo", "seconds"} <= set(said)
    assert said.count("200") == 2
    assert len(of_kind(picture, "attempt")) == 14


def test_starts_of_keys_but_the_one_with_most_jobs_are_marked_and_their_wait_is_said():
    run = play(
        """
        [regions.US]
        concurrency = 1

        [[jobs]]
        id = "loud"
        count = 20
        duration = 1
        fairness_key = "loud"

        [[jobs]]
        id = "quiet"
        at = 2
        count = 2
        duration = 1
        fairness_key = "{id}"
        """
    )
    picture = drawn(run)
    assert len(of_kind(picture, "other")) == 2 + 1  # and the legend
    said = [each.text or "" for each in picture.iter(f"{SVG}text")]
    assert [text for text in said if "longest wait of the other keys" in text]


@pytest.mark.prove
def test_of_many_attempts_it_shows_how_busy_each_region_was():
    run = play_builtin("retry-storm")
    picture = drawn(run)
    assert not of_kind(picture, "attempt")
    assert len(of_kind(picture, "busy")) >= 6
    assert len(chart([run])) < 200_000


@pytest.mark.prove
def test_outages_and_open_breakers_are_lines_above_their_region():
    run = play_builtin("regional-outage")
    picture = drawn(run)
    lines = [*of_kind(picture, "outage"), *of_kind(picture, "breaker")]
    titles = [each.findtext(f"{SVG}title") for each in lines if len(each)]  # not the legend
    opened, closed = [switch.at for switch in run.log.switches]
    assert titles == [
        "US is out of order: 60 to 180 s",
        f"the breaker of US is open: {opened:g} to {closed:g} s",
    ]


def test_slots_have_rows_of_their_own_and_names_are_escaped():
    job = '[[jobs]]\nid = "<&>"\ncount = 4\nregion = "US"\nduration = 5\n'
    run = play(f'title = "a < b"\n{QUICK}[regions.US]\nconcurrency = 2\n{job}')
    places = {bar.get("y") for bar in of_kind(drawn(run), "attempt")}
    assert len(places) == 2


def test_many_workers_have_thin_rows():
    job = '[[jobs]]\nid = "a"\ncount = 60\nregion = "US"\nduration = 5\n'
    run = play(f"until = 7\n{QUICK}[regions.US]\nworkers = 40\n{job}")
    bars = of_kind(drawn(run), "attempt")
    assert len(bars) == 60
    assert {bar.get("height") for bar in bars} == {"7"}


def test_the_page_holds_the_picture():
    text = page(chart([play_builtin("timeline-4")]), "a < b")
    assert text.startswith("<!doctype html>")
    assert "<title>a &lt; b</title>" in text
    assert "<svg" in text


@pytest.mark.parametrize("most", [0.5, 3, 12, 100, 212, 3600, 86_400, 1e7])
def test_ticks_are_round_and_few(most):
    assert 1 <= len(time_ticks(most)) <= 13
    assert 1 <= len(count_ticks(most)) <= 4
