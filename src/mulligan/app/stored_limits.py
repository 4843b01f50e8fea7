"""Limits of a store: listed, set, reset, paused and resumed, while workers run."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from mulligan.core.checks import Seconds, check_name, check_seconds
from mulligan.core.errors import InvalidError, UnknownLimitError
from mulligan.core.key_share import KeyShare, shares
from mulligan.core.limits import (
    ALL_LIMITS,
    LONGEST_PER,
    Limit,
    LimitView,
    StoredLimit,
    check_limit_name,
    check_paused_name,
    covering,
)
from mulligan.core.lines import check_weights
from mulligan.core.shards import absent
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

# How many limits, and how many fairness keys of a queue, are shown.
MOST_LISTED = 1000
MOST_KEYS = 1000
# How many names an error lists.
MOST_NAMED = 20
LONGEST_PAUSE = LONGEST_PER


class Limits:
    """The limits of the app's store: what apps declare, what operators set, and what is used."""

    def __init__(self, app: "Mulligan") -> None:
        self._app = app

    async def aget(self, name: str) -> LimitView:
        """The limit of this name; as `get`."""
        return await self._app.access.acall(lambda store: find_limit(store, name))

    def get(self, name: str) -> LimitView:
        """The limit of this name, or what covers it; refused if nothing does."""
        return self._app.run(lambda: self.aget(name))

    async def aset(
        self,
        name: str,
        *,
        concurrency: int | UnsetType | None = UNSET,
        rate: int | UnsetType | None = UNSET,
        per: Seconds | UnsetType = UNSET,
        burst: int | UnsetType | None = UNSET,
        pause_on_retry_after: bool | UnsetType = UNSET,
    ) -> LimitView:
        """Set a limit from now on; as `set`."""
        said = changes(concurrency, rate, per, burst, pause_on_retry_after)
        await self._change(lambda store: set_limit(store, name, said))
        return await self.aget(name)

    def set(
        self,
        name: str,
        *,
        concurrency: int | UnsetType | None = UNSET,
        rate: int | UnsetType | None = UNSET,
        per: Seconds | UnsetType = UNSET,
        burst: int | UnsetType | None = UNSET,
        pause_on_retry_after: bool | UnsetType = UNSET,
    ) -> LimitView:
        """Set a limit, instead of what apps declare, until it is reset: `set("openai", rate=30)`.

        What is not named stays as it is in force, None takes it away. It holds at once for all
        workers; a lower limit takes nothing back.
        """
        return self._app.run(
            lambda: self.aset(
                name,
                concurrency=concurrency,
                rate=rate,
                per=per,
                burst=burst,
                pause_on_retry_after=pause_on_retry_after,
            )
        )

    async def areset(self, name: str) -> LimitView | None:
        """Undo `set`; as `reset`."""
        await self._change(lambda store: reset_limit(store, name))
        return await self._app.access.acall(lambda store: seen_limit(store, name))

    def reset(self, name: str) -> LimitView | None:
        """Undo `set`: what apps declare holds again; None if no app declares it, and it is gone."""
        return self._app.run(lambda: self.areset(name))

    async def apause(self, name: str, seconds: Seconds) -> LimitView:
        """Start no job of the limit for so long; as `pause`."""
        await self._change(lambda store: pause_limit(store, name, seconds))
        return await self.aget(name)

    def pause(self, name: str, seconds: Seconds) -> LimitView:
        """Start no job of the limit for so long, anywhere; running ones go on."""
        return self._app.run(lambda: self.apause(name, seconds))

    async def aresume(self, name: str) -> LimitView:
        """End a pause."""
        await self._change(lambda store: resume_limit(store, name))
        return await self.aget(name)

    def resume(self, name: str) -> LimitView:
        """End a pause."""
        return self._app.run(lambda: self.aresume(name))

    async def _change(self, work: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
        """Change limits of the store, which then has what the app declares."""

        async def change(store: Store) -> None:
            await store_missing(store, self._app.declared_limits)
            await work(store)

        await self._app.access.acall(change)

    async def alist(self) -> list[LimitView]:
        """All that are stored or in use, by name; the first 1,000."""
        return await self._app.access.acall(list_limits)

    # Last in the class: its name is that of the type.
    def list(self) -> list[LimitView]:
        """All that are stored or in use, by name; the first 1,000."""
        return self._app.run(self.alist)


# -- operations on a store, which the command line and the server use too ------------------------


def changes(
    concurrency: Any = UNSET,
    rate: Any = UNSET,
    per: Any = UNSET,
    burst: Any = UNSET,
    pause_on_retry_after: Any = UNSET,
) -> dict[str, Any]:
    """What is to change of a limit, without what is not said."""
    said = {
        "concurrency": concurrency,
        "rate": rate,
        "per": per,
        "burst": burst,
        "pause_on_retry_after": pause_on_retry_after,
    }
    return {field: value for field, value in said.items() if value is not UNSET}


async def store_missing(store: Store, declared: Mapping[str, Limit]) -> None:
    """Store what an app declares and nobody has stored yet: a change is to a whole limit."""
    if declared:
        known = {view.name for view in await store.limits(ALL_LIMITS) if view.stored.declared}
        for name, limit in declared.items():
            if name not in known:
                await store.set_limit(name, limit, declared=True)


async def list_limits(store: Store) -> list[LimitView]:
    """All that are stored or in use, by name."""
    return await store.limits(MOST_LISTED)


async def find_limit(store: Store, name: str) -> LimitView:
    """The limit of this name; refused if none is stored that covers it."""
    found = await seen_limit(store, name)
    if found is None:
        known = [view.name for view in await list_limits(store)][:MOST_NAMED]
        there = f"there are: {', '.join(known)}" if known else "apps declare them with app.limit()"
        away = "".join(f"; {each}" for each in absent((await store.stats()).shards))
        raise UnknownLimitError(f"no limit {name!r} is stored; {there}{away}")
    return found


async def seen_limit(store: Store, name: str) -> LimitView | None:
    """The limit of this name, or of the family that covers it; None if nothing does."""
    return (await limits_named(store, [check_limit_name(name)])).get(name)


async def limits_named(store: Store, names: Iterable[str]) -> dict[str, LimitView]:
    """The limits of these names, as far as any covers them."""
    views = {view.name: view for view in await store.limits(ALL_LIMITS)}
    stored = {known for known, view in views.items() if view.stored.in_force}
    found = {}
    for name in names:
        by = covering(name, stored)
        if name in views:
            found[name] = views[name]
        elif by is not None:
            found[name] = LimitView(name, StoredLimit(), views[by].in_force)
    return found


async def set_limit(store: Store, name: str, said: dict[str, Any]) -> None:
    """Set what is said of a limit; the rest stays as it is in force."""
    check_limit_name(name)
    if not said:
        raise InvalidError(f"limit {name!r}: nothing is to change; give a rate or concurrency")
    found = await seen_limit(store, name)
    in_force = {} if found is None or found.in_force is None else asdict(found.in_force)
    if said.get("rate", in_force.get("rate")) is None:
        in_force["burst"] = None  # it goes with the rate
    await store.set_limit(name, Limit(**(in_force | said)), declared=False)


async def reset_limit(store: Store, name: str) -> None:
    """Undo what an operator set; a limit that none has set stays as it is."""
    await find_limit(store, name)
    await store.set_limit(name, None, declared=False)


async def pause_limit(store: Store, name: str, seconds: Seconds) -> None:
    """Start no job of the limit for so long."""
    length = check_seconds("pause", seconds, least=0.001, most=LONGEST_PAUSE)
    await find_limit(store, check_paused_name(name))
    await store.pause_limit(name, length)


async def resume_limit(store: Store, name: str) -> None:
    """End a pause."""
    await find_limit(store, check_paused_name(name))
    await store.pause_limit(name, 0.0)


async def set_weights(store: Store, queue: str, said: Mapping[str, float]) -> dict[str, float]:
    """Set weights of fairness keys of a queue; returns all of them. Weight 1 is the default.

    They are settings of the queue: an app that sets the queue sets them anew when it starts.
    """
    settings = (await store.facts()).queue(check_name("queue", queue))
    weights = dict(settings.weights) | dict(said)
    check_weights(weights.items())
    kept = {key: weight for key, weight in sorted(weights.items()) if weight != 1}
    await store.configure(queue, replace(settings, weights=tuple(kept.items())))
    return kept


async def key_shares(store: Store, queue: str) -> list[KeyShare]:
    """The fairness keys of the queue that have work waiting, those with most work first."""
    weights = dict((await store.facts()).queue(queue).weights)
    return shares(await store.keys(queue, MOST_KEYS), weights)
