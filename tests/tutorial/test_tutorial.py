"""A newcomer's first half hour: the tutorial, typed in order, in an empty environment."""

from __future__ import annotations

import re

import pytest

from tests.tutorial import ran
from tests.tutorial.transcript import Command, compared, missing, steps


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_every_command_of_the_tutorial_prints_what_it_says(tmp_path):
    now, failed = ran.renew_tutorial(tmp_path, ran.built(tmp_path))
    assert compared(ran.TUTORIAL.read_text()) == compared(now), "run make transcripts"
    # it says of a job that failed for good that it failed
    assert failed == ["mulligan watch courier-7"]


def test_every_block_of_the_tutorial_is_typed():
    text = ran.TUTORIAL.read_text()
    typed = [step.line for step in steps(text) if isinstance(step, Command)]
    shown = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    assert typed == shown
    assert set(re.findall(r"^```(\w+)$", text, re.MULTILINE)) == {"python", "console"}


def test_a_line_that_was_not_printed_is_missed():
    printed = "09:00:00.100 info    ready\n a  done  0.3 s ago\n"
    assert missing(("10:00:00.200 info ready", "a done 7 s ago"), printed) is None
    assert missing(("a done 7 s ago", "info ready"), printed) == "info ready"
    assert missing(("a failed",), printed) == "a failed"
