"""A play on a store, stopped at each of its points; several at a time, as each mostly waits."""

import asyncio
import secrets
from pathlib import Path

from tests.failpoints.one_death import Case, Outcome, kill_at, points_of
from tests.failpoints.places import Places
from tests.failpoints.plays import Play
from tests.failpoints.taps import is_answered

AT_A_TIME = 4
# How often a process is sent to a point that others passed, until one dies there.
TRIES = 8


class Performance:
    """Runs one play. A place on which something went wrong is not used again.

    Its process dies at each point, or with `misses` lives on without the answer to each write.
    """

    def __init__(self, play: Play, made: Places, folder: Path, *, misses: bool = False) -> None:
        self._misses = misses
        self._play = play
        self._made = made
        self._folder = folder
        self._room = asyncio.Semaphore(AT_A_TIME)

    async def run(self) -> list[Outcome]:
        """What became of each point."""
        url = self._made.take(self._play.query)
        points = await points_of(self._case(url))
        if self._misses:
            points = [point for point in points if is_answered(point)]
        self._made.give_back(url, self._play.query)
        return await asyncio.gather(*(self._insist(point) for point in points))

    async def _insist(self, point: str) -> Outcome:
        """Which jobs one claim or commit has is chance, and so are some of the steps."""
        for _ in range(TRIES):
            outcome = await self._kill(point)
            if outcome.died or outcome.wrong or self._play.may_miss(point):
                break
        return outcome

    async def _kill(self, point: str) -> Outcome:
        async with self._room:
            url = self._made.take(self._play.query)
            outcome = await kill_at(self._case(url, point)._replace(misses=self._misses))
            if not outcome.wrong:
                self._made.give_back(url, self._play.query)
            return outcome

    def _case(self, url: str, point: str | None = None) -> Case:
        mark = f"c{secrets.token_hex(4)}"
        return Case(self._play.title, url, mark, self._folder / mark, point)
