"""Carries out consequences by rules, for stores that do so in the same transaction."""

from typing import assert_never

from mulligan.stores.rules import gather
from mulligan.stores.rules.consequence import (
    Arrived,
    Consequence,
    Missed,
    Next,
    Purged,
    Withdrawn,
)
from mulligan.stores.rules.enqueue import add
from mulligan.stores.rules.tx import Tx


async def carry_out(tx: Tx, consequence: Consequence) -> None:
    """Change the other job."""
    match consequence:
        case Next():
            await add(tx, consequence.job)
        case Arrived():
            await gather.arrive(tx, consequence)
        case Missed():
            await gather.member_missed(tx, consequence)
        case Purged():
            await gather.member_purged(tx, consequence)
        case Withdrawn():
            await gather.withdraw(tx, consequence)
        case _:
            assert_never(consequence)
