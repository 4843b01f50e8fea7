"""Two stores side by side: the same commands, and the same answers or an error."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.health import UNKNOWN
from mulligan.core.job import TOKENS_PER_LIFE, Claim, Job, Lease, Status
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Limited, Returned
from mulligan.core.page import Selection
from mulligan.core.record import Recording
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from tests.contract.steps import step
from tests.store_kit import VirtualClock, fresh_url, handle

# Numbers by which a store tells before from after; which numbers they are is its own business. And
# the list of shards, which only some stores have.
PRIVATE = ("sequence", "epoch", "shards")


class Pair:
    """The memory store and another on one clock, in an event loop of their own."""

    def __init__(self, name: str, folder: Path, *, counted: bool = True) -> None:
        self.name = name
        self.clock = VirtualClock()
        self.memory = MemoryStore(clock=self.clock)
        self._counted = counted
        self._leases: dict[Lease, Lease] = {}
        self._newest: dict[str, tuple[int, int]] = {}
        self._runner = asyncio.Runner()
        # Its own `run` looks after Ctrl-C anew at each command, which takes longer than most do.
        self._run = self._runner.get_loop().run_until_complete
        self._stack = AsyncExitStack()
        self.other = self._run(self._open(folder))

    async def _open(self, folder: Path) -> Store:
        url = await self._stack.enter_async_context(fresh_url(self.name, folder))
        return await self._stack.enter_async_context(handle(url, self.clock))

    def close(self) -> None:
        """Close the stores and remove what they left."""
        self._run(self._stack.aclose())
        self._runner.close()

    def ask(self, command: str, *arguments: Any, **options: Any) -> Any:
        """Give both the command, and return the answer that they share."""
        return self.ask_each(command, arguments, arguments, **options)

    def ask_each(
        self, command: str, ours: tuple[Any, ...], theirs: tuple[Any, ...], **options: Any
    ) -> Any:
        """Give each the command in its own words, where an epoch or a cursor is part of it."""
        expected, answer = self._tell(command, ours, theirs, **options)
        assert plain(answer) == plain(expected), f"{command} answered {answer}, not {expected}"
        if command == "claim":
            self._meet(expected.claims, answer.claims)
        elif command == "reclaim":
            self._meet(expected, answer)
        return expected

    def _meet(self, ours: list[Claim], theirs: list[Claim]) -> None:
        """Learn which lease of the one store is which of the other."""
        for our, their in zip(ours, theirs, strict=True):
            before = self._newest.get(our.id, (0, 0))
            assert our.token > before[0], "tokens only grow, over all lives of a job"
            assert their.token > before[1], "tokens only grow, over all lives of a job"
            self._newest[our.id] = our.token, their.token
            self._leases[our.lease] = their.lease

    def _theirs(self, value: Any) -> Any:
        """The value as the other store knows it: its own leases in place of memory's."""
        match value:
            case Lease():
                return self._leases.get(value, value)
            case Recording():
                return value._replace(lease=self._theirs(value.lease))
            case Done() | Again() | Later() | Dead() | Returned() | Limited() | Cancelled():
                return replace(value, lease=self._theirs(value.lease))
            case list():
                return [self._theirs(each) for each in value]
            case _:
                return value

    def tell(self, command: str, *arguments: Any, **options: Any) -> None:
        """Give both the command, whatever they answer."""
        self._tell(command, arguments, arguments, **options)

    def _tell(
        self, command: str, ours: tuple[Any, ...], theirs: tuple[Any, ...], **options: Any
    ) -> tuple[Any, Any]:
        expected = self._run(getattr(self.memory, command)(*ours, **options))
        known = [self._theirs(each) for each in theirs]
        answer = self._run(getattr(self.other, command)(*known, **options))
        if self._counted:
            step(self.name)
        return expected, answer

    def facts(self) -> tuple[Any, Any]:
        """The facts of each, alike but for their epochs."""
        expected, answer = self._tell("facts", (), ())
        assert plain(answer) == plain(expected), f"facts answered {answer}, not {expected}"
        return expected, answer

    def stored(self, *statuses: Status) -> list[Job]:
        """Every job of these statuses, or all, as the memory store has it."""
        jobs = self._run(self.memory.page(Selection(), 1_000_000)).jobs
        return [each for each in jobs if not statuses or each.status in statuses]

    def pages(self, selection: Selection, limit: int) -> dict[str, Job]:
        """Every job that is selected, walked page by page in each."""
        ours = self._walk(self.memory.page, selection, limit)
        theirs = self._walk(self.other.page, selection, limit)
        for job in ours | theirs:
            expected, answer = ours.get(job), theirs.get(job)
            assert plain(answer) == plain(expected), f"a page has {answer}, not {expected}"
        return ours

    def _walk(self, page: Callable[..., Any], selection: Selection, limit: int) -> dict[str, Job]:
        found: dict[str, Job] = {}
        after = None
        while True:
            part = self._run(page(selection, limit, after))
            assert len(part.jobs) <= limit
            for job in part.jobs:
                assert job.id not in found, f"{job.id} is on two pages"
                found[job.id] = job
            after = part.after
            if after is None:
                return found


def plain(value: Any) -> Any:
    """The value as it is compared: times to a tenth of a millisecond, no private numbers."""
    if isinstance(value, Lease):
        return [value.job, value.token % TOKENS_PER_LIFE]
    if isinstance(value, Struct):
        names = [name for name in value.__struct_fields__ if name not in PRIVATE]
        return {name: plain(in_order(name, getattr(value, name))) for name in names}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def in_order(name: str, value: Any) -> Any:
    """The value, sorted where a store may answer in any order."""
    match name:
        case "lanes":
            return sorted(value, key=lambda each: each.lane)
        case "workers":
            return sorted(value, key=lambda each: each.worker.id)
        case "forgotten" | "reclaimed":
            return sorted(value, key=str)  # by the job's id, with which they begin
        case "token":
            return value % TOKENS_PER_LIFE  # where a life begins is each store's own business
        case "health":
            return {place: each for place, each in value.items() if each != UNKNOWN}
        case _:
            return value
