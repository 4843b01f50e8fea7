"""Rules run at once on stores in this process."""

import asyncio

import pytest

from mulligan.stores.rules.tx import run_now


async def test_a_rule_that_suspends_is_refused():
    async def rule() -> None:
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="a rule suspended"):
        run_now(rule())
