import asyncio

import pytest

from mulligan.core.at_once import at_once


def test_a_coroutine_that_never_waits_is_run_to_its_end():
    async def answer() -> int:
        return 7

    assert at_once(answer()) == 7


def test_a_coroutine_that_waits_is_refused():
    async def wait() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="the operation waited, and there is no event loop"):
        at_once(wait())
