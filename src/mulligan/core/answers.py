"""What a store answers a worker: what a claim gave, and what a heartbeat found."""

from msgspec import Struct

from mulligan.core.facts import Facts
from mulligan.core.job import Claim, Lease


class Claimed(Struct, frozen=True):
    """What a claim gave.

    `left` says for each group of the plan whether a job of it could still start now. `again_in`
    is how long until the plan could yield more by itself, None if it could not. When `stale` is
    set nothing was claimed: the plan was made from facts older than the store's.
    """

    claims: list[Claim]
    left: tuple[bool, ...] = ()
    again_in: float | None = None
    stale: bool = False


class Beat(Struct, frozen=True):
    """The answer to a heartbeat: what the worker should know.

    `lost` are leases it showed and no longer holds. `forgotten` are leases it has had from claims
    for longer than a lease time and did not show: the reply never reached it. `reclaimed` are those
    of them that it has from `reclaim`: somebody lost an attempt at them, which must count.
    """

    lost: list[Lease]
    facts: Facts
    forgotten: list[Lease] = []
    reclaimed: list[Claim] = []
