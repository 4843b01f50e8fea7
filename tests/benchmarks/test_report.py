"""The page that is written from results."""

import re

import pytest

from benchmarks.bars import bars
from benchmarks.environments import PEERS
from benchmarks.report import ROOT, group_of, header, page

RESULT = {
    "machine": {
        "processor": "a processor",
        "cores": 2,
        "memory_gib": 8,
        "system": "Linux 6",
        "python": "3.11.2",
        "date": "2026-01-01",
    },
    "options": {"rounds": 3, "cap": 120.0},
    "seconds": 1900,
    "versions": {"mulligan": "0.1.0", "bullmq": "6.7.0"},
    "left_out": {"postgres/oban": "oban needs Python 3.12, and none was found"},
    "medians": {
        "redis/mulligan": {"drain_per_s": 20_000.0, "crash_s": 15.9},
        "redis/bullmq": {"drain_per_s": 10_000.0, "crash_s": "> 120 s", "storm_error": "no answer"},
        "redis/raw": {"drain_per_s": 100_000.0},
    },
}


@pytest.fixture
def written():
    return page(RESULT)


def test_a_peer_stands_beside_mulligan_with_its_ratio(written):
    assert "| mulligan | - | - | 20,000 | - | - |" in written
    assert "| bullmq | - | - | 10,000 (0.50) | - | - |" in written
    assert "| raw | - | - | 100,000 (5.00) | - | - |" in written


def test_what_did_not_come_back_is_said_in_words(written):
    assert "> 120 s" in written


def test_who_was_left_out_and_what_went_wrong_is_said(written):
    assert "- oban: oban needs Python 3.12, and none was found" in written
    assert "- redis/bullmq, storm: no answer" in written


def test_a_store_without_results_has_no_section(written):
    assert "## Redis" in written
    assert "## SQLite" not in written


def test_the_settings_of_every_contender_are_its_own_words(written):
    for script in ("with_mulligan.py", "with_bullmq.cjs"):
        assert " ".join(header(PEERS / script).split()) in written


def test_the_page_links_to_files_that_exist(written):
    for target in re.findall(r"\]\((?!\.\./images|#)([^)]+)\)", written):
        assert (ROOT / "docs/proof" / target).resolve().exists(), target


def test_a_picture_has_a_bar_for_a_number_and_words_for_words():
    group = group_of(RESULT, "redis", ("crash_s",))
    assert group == ("Redis", [("mulligan", 15.9), ("bullmq", "> 120 s")])
    drawn = bars("Seconds", [group], logarithmic=True)
    assert drawn.count("<rect") == 2  # the paper and one bar
    assert "&gt; 120 s" in drawn


def test_a_store_that_was_not_measured_is_not_drawn():
    assert group_of(RESULT, "sqlite", ("crash_s",)) is None
