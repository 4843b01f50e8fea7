"""One tick, one job: whoever places ticks, is killed and stopped, while others edit."""

import multiprocessing
import os
import random
import signal
import time
from collections import defaultdict
from itertools import pairwise, zip_longest
from multiprocessing.context import ForkServerProcess

import pytest

from mulligan.core.schedule import tick_id
from mulligan.core.timing import ticks_between, timing_of
from tests.app import racing_ticker
from tests.app.racing_ticker import PAUSED, RECALLED, RETIMED, STEADY, Edited, Race, Ran, RunNow

SHARED = ("sqlite", "redis", "postgres", "mongo")
RACERS, CHANGES, TROUBLES = 4, 16, 8
# Later than any tick.
END = 1_010_000.0
MOST = 5000
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["tests.app.racing_ticker", *(f"mulligan.stores.{name}" for name in SHARED)]
)
pytestmark = [
    pytest.mark.prove,
    pytest.mark.parametrize("store_url", SHARED, indirect=True),
]


class Racers:
    """Processes that race: each is killed or stopped now and then, and another takes its place."""

    def __init__(self, race: Race) -> None:
        self._race = race
        self._chance = random.Random("racers")
        self._count = 0
        self._running = [self._start() for _ in range(RACERS)]
        self.troubles = 0

    def _start(self) -> ForkServerProcess:
        self._count += 1
        return started(racing_ticker.race, self._race, f"racer{self._count}")

    def trouble(self) -> None:
        """Kill one, or stop it for a while."""
        at = self._chance.randrange(RACERS)
        victim = self._running[at]
        assert victim.pid is not None
        self.troubles += 1
        if self.troubles % 2:
            victim.kill()
            victim.join()
            self._running[at] = self._start()
        else:
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(self._chance.uniform(0.05, 0.3))
            os.kill(victim.pid, signal.SIGCONT)

    def end(self) -> None:
        """Kill them all."""
        for each in self._running:
            each.kill()
            each.join()


def started(target, *args) -> ForkServerProcess:
    """Another process that does this."""
    process = PROCESSES.Process(target=target, args=args, daemon=True)
    process.start()
    return process


@pytest.fixture
def told(store_url, tmp_path):
    """What the processes of a race told, when all that they left is done."""
    folder = tmp_path / "told"
    folder.mkdir()
    race = Race(store_url, str(folder), time.monotonic())
    editor = started(racing_ticker.edit, race, CHANGES)
    racers = Racers(race)
    try:
        while editor.exitcode is None or racers.troubles < TROUBLES:
            editor.join(0.1)
            racers.trouble()
    finally:
        racers.end()
        editor.kill()
    assert editor.exitcode == 0
    last = started(racing_ticker.finish, race, "last")
    last.join()
    assert last.exitcode == 0
    return racing_ticker.told(folder)


def test_a_tick_is_one_job_whoever_is_killed_and_whatever_is_edited(told):
    ran = runs_of(told)
    twice = {job: lives for job, lives in ran.items() if len(lives) > 1}
    assert twice == {}
    versions = {job: version for job, lives in ran.items() for version in lives.values()}
    edits = defaultdict(list)
    for each in told:
        if isinstance(each, Edited):
            edits[each.name].append(each)
    assert edits.keys() == {STEADY, RECALLED, RETIMED, PAUSED}
    assert min(len(edits[name]) for name in (RECALLED, RETIMED, PAUSED)) > 1
    asked = [each.id for each in told if isinstance(each, RunNow)]
    assert [job for job in asked if job not in versions] == []
    may, must = set(asked), set()
    for name, changes in edits.items():
        for edit, after in zip_longest(changes, changes[1:]):
            may |= allowed(name, edit, after, versions)
        must |= wanted(name, changes)
    assert sorted(must - versions.keys()) == []
    assert sorted(versions.keys() - may) == []


def runs_of(told) -> dict[str, dict[int, int]]:
    """By job its lives, and the version of its schedule's call in each."""
    ran: dict[str, dict[int, int]] = defaultdict(dict)
    for each in told:
        if isinstance(each, Ran):
            ran[each.id][each.life] = each.version
    return ran


def allowed(name: str, edit: Edited, after: Edited | None, versions: dict[str, int]) -> set[str]:
    """The ticks of an edit: none before it, and none after the next, with the call of this one.

    A tick that comes due while the next edit is made may be of either.
    """
    until, calls = (END, {edit.version}) if after is None else (after.done, {after.version})
    ticks = ids_between(name, edit.every, edit.asked, until)
    return {tick for tick in ticks if versions.get(tick) in calls | {edit.version}}


def wanted(name: str, changes: list[Edited]) -> set[str]:
    """The ticks that must have run: all, where their times stay, and else the first of an edit.

    That one is placed with the edit. Others may be missed, and an edit of the timing forgets them.
    """
    if name in (STEADY, RECALLED):
        return set(ids_between(name, changes[0].every, changes[0].decided, changes[-1].done))
    firsts = [
        ids_between(name, edit.every, edit.decided, after.decided)[:1]
        for edit, after in pairwise(changes)
    ]
    return {tick for first in firsts for tick in first}


def ids_between(name: str, every: float | None, after: float, until: float) -> list[str]:
    """The ids of the ticks after one time and until another."""
    timing = timing_of(None, every, None)
    if timing is None:
        return []
    ticks = ticks_between(timing, after, until, MOST)
    return [tick_id(name, tick) for tick in ticks]
