"""The bug zoo: every mistake in it is seen by the checker, within a few seeds."""

from tests.dst.zoo import (
    ends,
    engine,
    lanes,
    leases,
    limits,
    pools,
    records,
    schedules,
    shards,
    turns,
)
from tests.dst.zoo.cage import SEEDS, ZOO, Bug, Caught, catch

__all__ = [
    "SEEDS",
    "ZOO",
    "Bug",
    "Caught",
    "catch",
    "ends",
    "engine",
    "lanes",
    "leases",
    "limits",
    "pools",
    "records",
    "schedules",
    "shards",
    "turns",
]
