"""How loops behave while the store is away."""

import asyncio

import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.engine.loops import LONGEST, StoreRetry
from mulligan.stores.redis.nodes import ANSWER_TIMEOUT
from mulligan.testing import VirtualLoop

DAYS = 3 * 86_400.0


class Away:
    """A store that cannot be reached before a certain time."""

    def __init__(self, loop: VirtualLoop, until: float, silence: float = 0.0) -> None:
        self._loop = loop
        self._until = until
        self._silence = silence
        self.tries = 0

    async def answer(self) -> str:
        self.tries += 1
        if self._loop.time() < self._until:
            await asyncio.sleep(self._silence)
            raise StoreUnavailableError("nobody is there")
        return "here"


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_a_loop_outlives_a_store_that_is_away_for_days(loop):
    store = Away(loop, DAYS)

    answer = loop.run_until_complete(StoreRetry("claim").call(store.answer))

    assert answer == "here"
    assert loop.time() < DAYS + LONGEST


def test_between_two_tries_it_waits_longer_each_time_but_not_for_long(loop):
    store = Away(loop, 60.0)

    loop.run_until_complete(asyncio.wait_for(StoreRetry("claim").call(store.answer), 60 + LONGEST))

    assert store.tries < 60


@pytest.mark.parametrize(("silence", "within"), [(0.0, 15.0), (ANSWER_TIMEOUT, 15.0), (30.0, 60.0)])
def test_a_loop_goes_on_soon_after_the_store_answers_again(loop, silence, within):
    """At most 15 s later, or twice the time that the store was given to answer."""
    store = Away(loop, 3600.0, silence)

    loop.run_until_complete(StoreRetry("claim").call(store.answer))

    assert loop.time() < 3600.0 + within
