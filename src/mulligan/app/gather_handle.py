"""A gather as one thing: how far it has come, what failed in it, and what is done to all of it."""

from typing import TypeVar

from msgspec import Struct

from mulligan.app.members import (
    Members,
    cancel_all,
    cancel_members,
    in_batches,
    inner_gathers,
    members_of,
    newest_statuses,
)
from mulligan.app.stages import ChainHandle
from mulligan.core.errors import InvalidError, UnknownJobError
from mulligan.core.flow import flow_of, gathering_id
from mulligan.core.gather import (
    Failure,
    Progress,
    failures_of,
    is_frozen,
    progress_after,
    progress_of,
)
from mulligan.core.job import Job
from mulligan.stores.contract import Store

R = TypeVar("R")


class GatherView(Struct, frozen=True):
    """A gather as a reader sees it: the job that gathers, and what has come of its members.

    `failures` are the first hundred, each with the index of its member. Where a member gathers
    others in turn and waits for the replay of one that failed, that is among them.
    """

    job: Job
    progress: Progress
    failures: list[tuple[int, Failure]]
    members: Members


class GatherHandle(ChainHandle[R], frozen=True, gc=False):
    """A gather, by the id that its jobs are named after. Its result is that of what comes last."""

    async def aprogress(self) -> Progress:
        """How many members there are, and how many have ended how."""
        return (await self._view()).progress

    def progress(self) -> Progress:
        """How many members there are, and how many have ended how."""
        return self._app.run(self.aprogress)

    async def afailures(self) -> list[Failure]:
        """What failed so far, in the order of the calls."""
        view = await self._view(limit=None)
        return [failure for _, failure in view.failures]

    def failures(self) -> list[Failure]:
        """What failed so far, in the order of the calls."""
        return self._app.run(self.afailures)

    async def areplay(self) -> int:
        """Replay what failed: its members while it waits for them, or what comes after them.

        Returns how many jobs are pending again. After the end its members are left as they are.
        """
        return await self._app.access.acall(self._replay)

    def replay(self) -> int:
        """Replay what failed: its members while it waits for them, or what comes after them."""
        return self._app.run(self.areplay)

    async def _view(self, limit: int | None = 0) -> GatherView:
        return await self._app.access.acall(lambda store: self._read(store, limit))

    async def _read(self, store: Store, limit: int | None) -> GatherView:
        flow = await self._whole(store)
        return await gather_view(store, gathering_id(flow.root), limit)

    async def _replay(self, store: Store) -> int:
        return await replay_gather(store, await self._read(store, None))


async def gather_view(store: Store, job: str, limit: int | None = 100) -> GatherView:
    """The gather that the job gathers or is a member of; refuses a job that is in none.

    It may also be the id that all jobs of the gather are named after.
    """
    found = await store.get(job) or await store.get(gathering_id(job))
    if found is None:
        raise UnknownJobError(f"no job {job!r} is stored")
    flow = flow_of(found.body)
    if flow is not None and not flow.gathers and found.gather is not None:
        above = await store.get(found.gather)
        if above is not None:
            found, flow = above, flow_of(above.body)
    if flow is None or not flow.gathers:
        raise InvalidError(
            f"job {job!r} gathers no others; name the job that gathers, which"
            f" `mulligan job {job}` shows, or a member"
        )
    members = await members_of(store, found) or Members(flow, 0)
    failures: list[tuple[int, Failure]] = []
    if limit != 0:
        failures = (await all_failures(store, found, members, limit))[:limit]
    progress = progress_of(found, flow.members)
    if is_frozen(found):
        progress = progress_after(progress, await newest_statuses(store, members))
    return GatherView(found, progress, failures, members)


async def all_failures(
    store: Store, job: Job, members: Members, most: int | None
) -> list[tuple[int, Failure]]:
    """What failed among the members, and what those that gather others wait for.

    With `most` only so many members are looked into.
    """
    failures: list[tuple[int, Failure]] = []
    if job.members_failed + job.members_cancelled:
        failures = failures_of(await store.arrivals(job.id))
    async for inner in inner_gathers(store, members, most):
        if inner.job.status == "pending" and inner.job.awaits:
            inside = await all_failures(store, inner.job, inner.members, most)
            failures += [(inner.index, failure) for _, failure in inside]
    return sorted(failures, key=lambda each: each[0])


async def cancel_gather(store: Store, view: GatherView, reason: str) -> int:
    """Cancel the gathering job and all members that have not ended; returns how many jobs."""
    # The gathering job first: what arrives after it changes nothing.
    ended = await cancel_all(store, [view.job.id], reason)
    return sum([*ended, *await cancel_members(store, view.members, reason)])


async def replay_gather(store: Store, view: GatherView) -> int:
    """Replay the members that failed while they are awaited, or the gathering job if it failed.

    Where members gather others in turn, what they wait for is replayed too.
    """
    return await replay_failed(store, view.job, view.members)


async def replay_failed(store: Store, job: Job, members: Members) -> int:
    """Replay what holds up the gathering job; returns how many jobs are pending again."""
    if job.status == "failed":
        return sum(await store.replay([job.id]))
    if job.status != "pending" or not job.awaits:
        return 0
    failed = [failure.job for _, failure in failures_of(await store.arrivals(job.id))]
    count = sum([sum(await store.replay(part)) for part in in_batches(failed)])
    async for inner in inner_gathers(store, members):
        count += await replay_failed(store, inner.job, inner.members)
    return count
