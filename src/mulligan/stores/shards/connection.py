"""The shards of an app, reached one by one or together, and which of them are away.

A shard that does not answer is away: claims and readers go on without it, and what is for it alone
is refused until it is back. Where there is an event loop, one task asks an absent shard until it
answers, so that nobody else waits for it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from mulligan.core.errors import ShardAwayError, StoreUnavailableError
from mulligan.core.shards import HOME, Layout, candidates, home_of_id
from mulligan.core.stats import ShardView
from mulligan.stores import is_embedded, redact
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.core.limits import Limit

log = logging.getLogger("mulligan.shards")
T = TypeVar("T")
Operation = Callable[[Store], Awaitable[T]]
AWAY = (StoreUnavailableError, OSError)
# How long an absent shard is left alone before it is asked again.
FIRST_LOOK, LONGEST_LOOK = 0.1, 5.0
# How many jobs are remembered that are not where their id says, and how many epochs.
MOST_ELSEWHERE = 100_000
MOST_EPOCHS = 64
# In how many shards a chore is done at a time, where there are more: each has its turn.
CHORES_AT_ONCE = 8


class Shard:
    """One shard: its store, and why it is away, if it is."""

    def __init__(self, number: int, store: Store) -> None:
        self.number = number
        self.store = store
        self.shown = redact(store.url)
        self.away: str | None = None
        self.look_at = 0.0
        self.looks = 0
        # What was declared while it was away.
        self.missed_limits: dict[str, Limit | None] = {}


class Memory:
    """What handles of one process remember of an app: odd jobs, homes of limits, and epochs.

    An epoch of the app is the sum of those of its shards, each of which only grows. New jobs that
    may be in any shard are not placed in those that are `away`.
    """

    def __init__(self) -> None:
        self.elsewhere: dict[str, int] = {}
        self.limit_homes: dict[str, int] = {}
        self.epochs: dict[int, tuple[int, ...]] = {}
        self.latest: tuple[int, ...] | None = None
        self.away: set[int] = set()

    def remember(self, job: str, shard: int, layout: Layout) -> None:
        """The job is in this shard: note it if its id says another."""
        if home_of_id(job, layout) != shard:
            self.elsewhere[job] = shard
            forget_oldest(self.elsewhere, MOST_ELSEWHERE)

    def add_epochs(self, epochs: tuple[int, ...]) -> int:
        """Remember what each shard's epoch was; returns that of the app."""
        total = sum(epochs)
        self.epochs[total] = epochs
        forget_oldest(self.epochs, MOST_EPOCHS)
        return total


def forget_oldest(kept: dict[Any, Any], most: int) -> None:
    """Keep no more than so many; threads that share them may forget at the same time."""
    while len(kept) > most:
        with contextlib.suppress(KeyError, StopIteration, RuntimeError):
            del kept[next(iter(kept))]


_memories: "WeakValueDictionary[str, Memory]" = WeakValueDictionary()


def memory_of(url: str) -> Memory:
    """What this process remembers of the app, shared by its handles; not by embedded stores."""
    if is_embedded(url):
        return Memory()
    return _memories.setdefault(url, Memory())


class Shards:
    """All shards of an app, in their order."""

    def __init__(
        self,
        url: str,
        stores: Sequence[Store],
        clock: Callable[[], float] | None = None,
        *,
        inline: bool = False,
    ) -> None:
        self.all = [Shard(number, store) for number, store in enumerate(stores)]
        self.layout = Layout(len(stores), len(stores))
        self.memory = memory_of(url)
        self.now = clock or time.monotonic
        # Whether shards are asked one after the other, where a call costs no round trip.
        self.in_order = inline or url.startswith("memory:")
        self.cheap = is_embedded(url)
        self._chores: dict[str, int] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._awaited: set[asyncio.Future[None]] = set()
        # Called with a shard that is back, before any other call reaches it.
        self.on_return: Callable[[Shard], Awaitable[None]] | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.all)

    @property
    def present(self) -> list[Shard]:
        """Those that answer, as far as is known."""
        return [shard for shard in self.all if self.answers(shard)]

    def answers(self, shard: Shard) -> bool:
        """Whether the shard is to be asked."""
        return shard.away is None or (not self._looking and self.now() >= shard.look_at)

    def in_turn(self, chore: str) -> list[Shard]:
        """The shards in which to do a chore now: the next ones of those that answer.

        An idle worker has chores every second. It asks no more shards each time than there are
        here, so that many shards cost it little more than few.
        """
        present = self.present
        begin = self._chores.get(chore, 0)
        turn = [shard for shard in present if shard.number >= begin]
        turn = [*turn, *(shard for shard in present if shard.number < begin)][:CHORES_AT_ONCE]
        if turn:
            self._chores[chore] = turn[-1].number + 1
        return turn

    def where(self, job: str) -> int:
        """In which shard the job is, as far as is known here."""
        known = self.memory.elsewhere.get(job)
        return self.home(job) if known is None else known

    def home(self, job: str) -> int:
        """In which shard a job of this id is looked for first."""
        return home_of_id(job, self.layout)

    def others(self, job: str) -> list[int]:
        """Where else the job may be, in the order in which it is looked for."""
        known = self.where(job)
        return [shard for shard in candidates(job, self.layout) if shard != known]

    async def at(self, number: int, operation: Operation[T]) -> T:
        """Run the operation on one shard; one that is away is told by its number."""
        shard = self.all[number]
        if not self.answers(shard):
            raise ShardAwayError(f"shard {number} ({shard.shown}) is away: {shard.away}")
        try:
            if shard.away is not None:
                await shard.store.open()
                await self.returned(shard)
            return await operation(shard.store)
        except AWAY as error:
            self.lost(shard, error)
            raise ShardAwayError(f"shard {number} ({shard.shown}): {error}") from error

    async def home_at(self, operation: Operation[T]) -> T:
        """Run the operation on the home shard, which keeps what belongs to no single job."""
        return await self.at(HOME, operation)

    async def each(
        self, operation: Callable[[Shard], Awaitable[T]], among: Iterable[Shard] | None = None
    ) -> list[tuple[int, T]]:
        """Run the operation on all shards that answer; raises if none does."""
        asked = list(self.present if among is None else among)
        answers = await self.together([self.tried(shard, operation) for shard in asked])
        found = [
            (shard.number, each[0]) for shard, each in zip(asked, answers, strict=True) if each
        ]
        if not found and (among is None or len(asked) == self.count):
            raise self.none_answers()
        return found

    def none_answers(self) -> StoreUnavailableError:
        """What is raised where no shard answers."""
        away = next((shard for shard in self.all if shard.away is not None), self.all[HOME])
        return StoreUnavailableError(
            f"no shard answers; shard {away.number} ({away.shown}): {away.away}"
        )

    async def tried(
        self, shard: Shard, operation: Callable[[Shard], Awaitable[T]]
    ) -> tuple[T] | None:
        """The answer of one shard; None if it is away."""
        try:
            answer = await self.at(shard.number, lambda _: operation(shard))
        except StoreUnavailableError:
            return None
        return (answer,)

    async def together(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        """The answers to all calls; an error is raised when all have ended."""
        if len(calls) == 1:
            return [await calls[0]]
        if self.in_order:
            return await in_turn(calls)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers  # type: ignore[return-value]

    # -- away and back ---------------------------------------------------------------------

    def lost(self, shard: Shard, error: BaseException) -> None:
        """The shard did not answer: it is away until it does."""
        if shard.away is None:
            log.warning("shard %d (%s) is away: %s", shard.number, shard.shown, error)
        shard.away = str(error)
        self.memory.away.add(shard.number)
        shard.looks += 1
        wait = min(LONGEST_LOOK, FIRST_LOOK * 2 ** min(shard.looks, 10))
        shard.look_at = self.now() + wait
        if shard.looks == 1 and not self.in_order:
            with contextlib.suppress(RuntimeError):  # plain code has no loop
                look = asyncio.get_running_loop().create_task(self._look_for(shard))
                self._looking.add(look)
                look.add_done_callback(self._looking.discard)

    async def _look_for(self, shard: Shard) -> None:
        """Ask an absent shard from time to time, until it is back."""
        while shard.away is not None:
            await asyncio.sleep(max(0.0, shard.look_at - self.now()))
            try:
                await shard.store.open()
                await shard.store.facts()
                await self.returned(shard)
            except Exception as error:  # noqa: BLE001 - said by status and doctor
                self.lost(shard, error)

    async def returned(self, shard: Shard) -> None:
        """The shard answers again."""
        if self.on_return is not None:
            await self.on_return(shard)
        if shard.away is not None:
            log.warning("shard %d (%s) is back", shard.number, shard.shown)
        shard.away, shard.looks = None, 0
        self.memory.away.discard(shard.number)
        for end in list(self._awaited):
            end.get_loop().call_soon_threadsafe(end_wait, end)

    @contextlib.contextmanager
    def any_return(self) -> Iterator[set["asyncio.Future[None]"]]:
        """A future that ends when an absent shard is back; None while none is away."""
        if all(shard.away is None for shard in self.all):
            yield set()
            return
        end = asyncio.get_running_loop().create_future()
        self._awaited.add(end)
        try:
            yield {end}
        finally:
            self._awaited.discard(end)
            end.cancel()

    async def close(self) -> None:
        """Stop looking for absent shards, and close all."""
        looking = list(self._looking)
        for task in looking:
            task.cancel()
        for task in looking:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for shard in self.all:
            self.memory.away.discard(shard.number)  # nobody here looks for it any more
            with contextlib.suppress(*AWAY):
                await shard.store.close()

    def views(self, waiting: dict[int, int], running: dict[int, int]) -> tuple[ShardView, ...]:
        """Each shard as a reader sees it."""
        return tuple(
            ShardView(
                each.number,
                each.shown,
                waiting.get(each.number, 0),
                running.get(each.number, 0),
                each.away,
            )
            for each in self.all
        )


async def in_turn(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The answers to calls that are made one after the other; none is left out for an error."""
    answers: list[T] = []
    errors: list[Exception] = []
    for call in calls:
        try:
            answers.append(await call)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise errors[0]
    return answers


def end_wait(end: "asyncio.Future[None]") -> None:
    """End a wait, once."""
    if not end.done():
        end.set_result(None)


def by_shard(shards: Iterable[int]) -> dict[int, list[int]]:
    """The indexes at which each shard is named."""
    found: dict[int, list[int]] = {}
    for index, shard in enumerate(shards):
        found.setdefault(shard, []).append(index)
    return found
