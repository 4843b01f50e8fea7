"""What a worker logs about attempts."""

import logging

import pytest

from mulligan import Delays, Mulligan, Retry
from mulligan.engine.job_log import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0.0 seconds"), (6.04, "6.0 seconds"), (60.0, "1.0 minutes"), (300.0, "5.0 minutes")],
)
def test_a_delay_is_told_in_seconds_below_a_minute(seconds, words):
    assert in_words(seconds) == words


def test_a_success_is_told_to_who_asks_for_as_much(caplog):
    app = Mulligan("memory://")

    @app.task(retry=Retry(1, Delays((6,))))
    def ask() -> int:
        if not asked:
            asked.append(1)
            raise TimeoutError
        return 1

    asked: list[int] = []
    caplog.set_level(logging.DEBUG, "mulligan.worker")
    with app.testing() as t:
        ask.using(id="j").enqueue()
        t.drain()
    assert "job j: back in queue default after 6.0 seconds; attempt 2 starts" in caplog.text
    [line] = [each for each in caplog.records if "succeeded" in each.getMessage()]
    assert line.getMessage() == "job j: attempt 2 of task ask succeeded in 0.000 s"
    assert (line.levelno, line.__dict__["job"]) == (logging.DEBUG, "j")
