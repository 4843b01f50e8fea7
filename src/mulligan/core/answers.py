"""What a store answers to a claim and to a heartbeat."""

from msgspec import Struct

from mulligan.core.facts import Facts
from mulligan.core.job import Claim, Lease


class Claimed(Struct, frozen=True):
    """The answer to a claim.

    `left` says for each group of the plan whether a job of it could still start now. `again_in`
    is how long until the plan could yield more by itself, None if it could not; 0 if what this
    claim started makes room for more, which is for the next claim. If `stale`, nothing was claimed,
    because the plan was made from older facts than the store's.
    """

    claims: list[Claim]
    left: tuple[bool, ...] = ()
    again_in: float | None = None
    stale: bool = False


class Beat(Struct, frozen=True):
    """The answer to a heartbeat.

    `lost` are leases that the worker showed and no longer holds. `forgotten` are leases that it got
    from claims and has not shown for longer than a lease time: the reply never reached it.
    `reclaimed` are such leases from `reclaim`: an attempt was lost, which must count.
    """

    lost: list[Lease]
    facts: Facts
    forgotten: list[Lease] = []
    reclaimed: list[Claim] = []
