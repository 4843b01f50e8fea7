"""Limits, each in its home: one shard, which counts it as a store does that is alone.

Which shard is written down in the first one before the limit is stored, and never changes. What a
process has read of that is therefore right for as long as it runs; only a name that nothing covers
is looked up again.
"""

from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from mulligan.core.errors import InvalidError, ShardAwayError, StoreUnavailableError
from mulligan.core.limit_homes import check_home, home_of_limit, read_homes, write_homes
from mulligan.core.limits import ALL_LIMITS, Limit, LimitView, covering
from mulligan.core.reschedule import Reschedule
from mulligan.core.shards import HOME, HOMES
from mulligan.stores.contract import Store
from mulligan.stores.shards.connection import Shards

# How often homes are read again when another process writes them at the same time.
TRIES = 100


async def home_of(shards: Shards, name: str) -> int:
    """The home of the limit: that of what covers it, or else the first shard."""
    await know(shards, [name])
    return home_of_limit(name, shards.memory.limit_homes) or HOME


async def know(shards: Shards, names: Iterable[str]) -> None:
    """Read the homes of limits if one of these names is not known to have one."""
    homes = shards.memory.limit_homes
    if any(covering(name, homes) is None for name in names):
        await read(shards)


async def read(shards: Shards) -> bytes | None:
    """What the first shard has written of homes; they are known from now on."""
    written = (await shards.home_at(lambda store: store.schedules())).get(HOMES)
    shards.memory.limit_homes = read_homes(written)
    return written


async def set_limit(shards: Shards, name: str, limit: Limit | None, *, declared: bool) -> None:
    """Store the limit in its home; one that is away is told what is declared when it is back."""
    await know(shards, [name])
    home = home_of_limit(name, shards.memory.limit_homes)
    if limit is not None and (declared or home is None):
        home = limit.home
        if declared or home != HOME:
            await settle(shards, name, home)
    home = home or HOME
    kept = limit if limit is None else replace(limit, home=home)
    try:
        await shards.at(home, lambda store: store.set_limit(name, kept, declared=declared))
    except ShardAwayError:
        if home == HOME or not declared:
            raise
        shards.all[home].missed_limits[name] = kept


async def settle(shards: Shards, name: str, home: int) -> None:
    """Have the limit live in this shard, for good; refused if it lives in another."""
    if home >= shards.count:
        raise InvalidError(
            f"limit {name!r} is declared with home={home}, and there are {shards.count} shards,"
            f" from 0; say one below {shards.count}, or add shards"
        )
    for _ in range(TRIES):
        homes = shards.memory.limit_homes
        check_home(name, home, homes)
        if homes.get(name) == home:
            return
        before = await read(shards)
        homes = shards.memory.limit_homes
        if name in homes:
            continue
        check_home(name, home, homes)
        if home != HOME:
            await check_new(shards, name, home)
        after = write_homes({**homes, name: home})
        change = Reschedule(HOMES, before, after)
        if await shards.home_at(lambda store: store.reschedule(change)):  # noqa: B023 - at once
            shards.memory.limit_homes = {**homes, name: home}
    raise StoreUnavailableError("other processes change the homes of limits; try again")


async def check_new(shards: Shards, name: str, home: int) -> None:
    """Refuse another home for a limit that the first shard has kept so far."""
    for view in await shards.home_at(lambda store: store.limits(ALL_LIMITS)):
        if (
            covering(view.name, [name])
            and home_of_limit(view.name, shards.memory.limit_homes) is None
        ):
            raise InvalidError(
                f"limit {view.name!r} is kept in shard {HOME} already, and {name!r} is declared"
                f" with home={home}; a limit does not move: leave home= away, or use another name"
            )


async def tell_missed(shards: Shards, shard: int, store: Store) -> None:
    """Store in a shard that is back the limits that were declared while it was away."""
    missed = shards.all[shard].missed_limits
    while missed:
        name, limit = next(iter(missed.items()))
        await store.set_limit(name, limit, declared=True)
        del missed[name]


async def limits(shards: Shards, most: int) -> list[LimitView]:
    """The limits of all homes that answer, in order of names."""
    with suppress(ShardAwayError):
        await read(shards)
    homes = shards.memory.limit_homes
    numbers = {HOME, *homes.values()}
    asked = [shard for shard in shards.present if shard.number in numbers]
    answers = await shards.each(lambda shard: shard.store.limits(most), asked)
    views = [
        view
        for number, found in answers
        for view in found
        if (home_of_limit(view.name, homes) or HOME) == number
    ]
    return sorted(views, key=lambda view: view.name)[:most]


async def pause_limit(shards: Shards, name: str, seconds: float, *, at_least: bool) -> None:
    """Pause the limit in its home."""
    home = await home_of(shards, name)
    await shards.at(home, lambda store: store.pause_limit(name, seconds, at_least=at_least))


async def spend(shards: Shards, name: str, cost: int) -> None:
    """Charge the limit in its home."""
    home = await home_of(shards, name)
    await shards.at(home, lambda store: store.spend(name, cost))
