"""Debounce and throttle are exact, however many processes enqueue at once."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from mulligan.core.page import Selection
from tests.store_kit import handle

SHARED = ("sqlite", "redis", "postgres", "mongo")
PRODUCERS, EACH = 4, 250
# Each enqueue waits for the disk.
pytestmark = [
    pytest.mark.prove,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("store_url", SHARED, indirect=True),
]


def race(url: str, how: str) -> list[list[tuple[str, bool]]]:
    """What each producer was answered, in its order."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "tests.app.racing_producer"),
                        *(url, f"p{n}", str(EACH), how),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for n in range(PRODUCERS)
        ]
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in started:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        said = [each.communicate()[0].splitlines() for each in started]
        assert [each.returncode for each in started] == [0] * PRODUCERS
    return [[(line.split()[0], line.endswith("1")) for line in lines] for lines in said]


async def stored(url: str):
    """Every job, and the store's own count of them."""
    async with handle(url, time.time) as store:
        page = await store.page(Selection(), 100)
        stats = await store.stats()
    return page.jobs, sum(lane.ready + lane.delayed for lane in stats.lanes)


async def test_a_thousand_debounced_enqueues_are_one_job_with_the_last_arguments(store_url):
    answers = race(store_url, "debounce")
    every = [answer for each in answers for answer in each]
    assert len(every) == PRODUCERS * EACH
    assert len({job for job, _ in every}) == 1
    assert sum(created for _, created in every) == 1
    [job], waiting = await stored(store_url)
    assert waiting == 1
    producer, number = json.loads(job.body)["args"]
    assert number == EACH - 1, f"{producer} enqueued again after that"
    assert job.created_at + 3600 < job.due <= job.debounce_until


async def test_a_thousand_throttled_enqueues_are_one_job_with_the_first_arguments(store_url):
    answers = race(store_url, "throttle")
    every = [answer for each in answers for answer in each]
    assert len({job for job, _ in every}) == 1
    assert sum(created for _, created in every) == 1
    [job], waiting = await stored(store_url)
    assert waiting == 1
    assert json.loads(job.body)["args"][1] == 0
