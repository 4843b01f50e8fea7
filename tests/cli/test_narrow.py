"""Tables on a terminal of 80 columns: words stay whole, and nothing is wider."""

import re
import time

import pytest
from rich.console import Console

from mulligan.cli.fleet_view import status_tables
from mulligan.cli.show import table
from mulligan.core.fleets import FleetState, KindState
from tests.cli.command_line import APP, claim, do, fail, good, new_job

SAID = "the bank at payments.example.com did not answer within 30 seconds"
NAMES = [f"0196b7ea-order-{number}" for number in range(3)]


@pytest.fixture
def letters(store):
    """A store with dead letters that say a lot."""

    async def fill(store):
        await store.enqueue([new_job(name, queue="payments") for name in NAMES])
        await fail(store, await claim(store, 3, "payments"), SAID)

    do(store, fill)
    return store


def narrow(*arguments: str) -> str:
    """What is printed where there are 80 columns."""
    said = good(*arguments, COLUMNS="80")
    assert max(map(len, said.splitlines())) <= 80
    return said


@pytest.mark.parametrize("command", [("jobs",), ("dead", "list")], ids=" ".join)
def test_lists_of_jobs_break_no_word(letters, command):
    words = narrow(*command, APP).split()
    assert {"payments", "failed", "region", "retries", *NAMES} <= set(words)
    assert " ".join(words).count(f"ValueError: {SAID}") == 3


def test_where_there_is_room_a_failure_stands_beside_its_job(letters):
    said = good("jobs", APP, COLUMNS="200")
    assert len(re.findall(rf"{NAMES[0]}.*ValueError: {SAID}", said)) == 1


def test_a_fleet_breaks_no_word():
    why = "depth 1200, oldest wait 700 s; max_concurrent"
    kind = KindState(12, why, 10, 2, 0, 0, 1200, 700.0, time.time() + 60, (), ())
    kinds = {"questions": kind, "payments": kind}
    state = FleetState("shop", "host", 5, 60.0, 0.0, "running", kinds)
    out = Console(width=80, force_terminal=False)
    with out.capture() as captured:
        out.print(status_tables(state, alive=True))
    said = captured.get()
    assert max(map(len, said.splitlines())) <= 80
    wanted = {"questions", "payments", "wanted", "starting", "draining", "resting", "restart"}
    assert wanted <= set(said.split())
    assert said.count(why) == 2


def test_several_long_texts_stand_below_a_row_with_their_names():
    rows = [("a" * 40, 1, "idle", None), ("b", 2, "", "x")]
    made = table("Fleets", ("fleet", "#n", "~why", "~last exit"), rows)
    out = Console(width=60, force_terminal=False)
    with out.capture() as captured:
        out.print(made)
    lines = [line.strip() for line in captured.get().splitlines() if line.strip()]
    assert lines[0] == "Fleets"
    assert lines[3:] == [f"{'a' * 40} 1", "why: idle", f"b{' ' * 40}2", "last exit: x"]
