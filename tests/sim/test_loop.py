"""The clock of a simulation: it moves by nanoseconds, and always forward."""

import asyncio
from collections.abc import Coroutine
from contextvars import Context, ContextVar
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mulligan.sim.loop import NANOSECOND, OrderedLoop

YEAR = 365 * 86_400.0


def lived(loop: OrderedLoop, what: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(what)
    finally:
        loop.close()


async def reach(loop: OrderedLoop, deadline: float) -> int:
    """Wait until the clock shows the moment; says how often one was woken before it did."""
    woken = 0
    while loop.time() < deadline:
        assert woken < 3, f"woken again and again at {loop.time()!r}, before {deadline!r}"
        await asyncio.sleep(deadline - loop.time())
        woken += 1
    return woken


@pytest.mark.parametrize("fraction", [1e-12, 1e-10, 4e-10, 5e-10, 6e-10, 9e-10])
def test_a_deadline_finer_than_a_nanosecond_is_reached(fraction):
    loop = OrderedLoop()

    async def wait() -> None:
        await asyncio.sleep(1.0)
        await reach(loop, loop.time() + fraction)

    lived(loop, wait())
    assert 1.0 < loop.time() <= 1.0 + 2 * NANOSECOND


@given(
    st.floats(0, YEAR),
    st.floats(0, 1e-6) | st.floats(0, 1e-9) | st.floats(0, YEAR),
)
@example(86_400.0, 3e-10)
@example(YEAR, 1e-9)
def test_whoever_waits_for_a_moment_is_woken_at_it_or_within_two_nanoseconds(start, ahead):
    loop = OrderedLoop()
    deadline = start + ahead

    async def wait() -> None:
        await reach(loop, start)
        await reach(loop, deadline)

    lived(loop, wait())
    assert deadline <= loop.time() <= max(deadline, round(start, 9)) + 2 * NANOSECOND


def test_sums_that_differ_by_a_rounding_meet_and_fire_in_the_order_of_setting():
    loop = OrderedLoop()
    fired: list[tuple[str, float]] = []

    async def wait() -> None:
        for name, when in (("sum", 0.1 + 0.2), ("whole", 0.3), ("sum again", 0.1 + 0.2)):
            loop.call_at(when, lambda name=name: fired.append((name, loop.time())))
        await asyncio.sleep(1.0)

    lived(loop, wait())
    assert fired == [("sum", 0.3), ("whole", 0.3), ("sum again", 0.3)]


def test_a_moment_that_has_passed_is_now():
    loop = OrderedLoop()
    fired: list[float] = []

    async def wait() -> None:
        await asyncio.sleep(5.0)
        loop.call_at(2.0, lambda: fired.append(loop.time()))
        await asyncio.sleep(1.0)

    lived(loop, wait())
    assert fired == [5.0]


def test_a_task_that_began_in_an_empty_context_keeps_what_it_sets():
    word: ContextVar[str] = ContextVar("word")
    loop = OrderedLoop()
    woken = asyncio.Event()

    async def set_and_wait() -> str:
        word.set("kept")
        await woken.wait()
        return word.get()

    try:
        task = Context().run(loop.create_task, set_and_wait())
        loop.call_later(1, woken.set)  # in another context
        assert loop.run_until_complete(task) == "kept"
    finally:
        loop.close()
