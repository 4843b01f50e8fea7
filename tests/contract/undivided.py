"""Four shards that answer exactly as one store does, so that they can be compared with memory.

All that is named lives in the first of them, as in an app that had one store and has grown. What is
otherwise over several shards on purpose (docs/concepts/shards.md) is made as in one store.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from mulligan.core.plan import ClaimPlan
from mulligan.core.shard_turns import ShardShares
from mulligan.stores.shards import claim, operate, schema
from tests.contract import pair


def whole(plan: ClaimPlan, _shard: int, _count: int) -> ClaimPlan:
    """The first shard has the whole cap and budget of a queue."""
    return plan


def by_the_plan(_shares: ShardShares, plan: ClaimPlan) -> ClaimPlan:
    """Shares are those of the worker's plan."""
    return plan


def accepted(*_: object) -> None:
    """A cap below the number of shards is none that is divided."""


@contextmanager
def undivided() -> Iterator[None]:
    """While this lasts, nothing is divided among shards."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(claim, "divided", whole))
        stack.enter_context(patch.object(ShardShares, "fitted", by_the_plan))
        for module in (operate, schema):
            stack.enter_context(patch.object(module, "check_settings", accepted))
        # A first claim lets each shard know that the worker lives; in one store it need not.
        stack.enter_context(patch.object(pair, "PRIVATE", (*pair.PRIVATE, "beat_at")))
        yield
