"""Dead letters: jobs that failed for good, to be read, replayed or purged."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from mulligan.core.job import Job
from mulligan.core.page import Page, Selection

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

PAGE = 500


class DeadLetters:
    """The failed jobs of one queue or of all, read in pages."""

    def __init__(self, app: "Mulligan", queue: str | None) -> None:
        self._app = app
        self._selection = Selection(status="failed", queue=queue)

    async def _pages(self, *, bodies: bool = False) -> AsyncIterator[Page]:
        after: str | None = None
        while True:
            page = await self._page(after, bodies=bodies)
            yield page
            after = page.after
            if after is None:
                return

    async def _page(self, after: str | None, *, bodies: bool) -> Page:
        return await self._app.access.acall(
            lambda store: store.page(self._selection, PAGE, after, bodies=bodies)
        )

    async def alist(self) -> list[Job]:
        """All of them."""
        return [job async for page in self._pages(bodies=True) for job in page.jobs]

    def __iter__(self) -> Iterator[Job]:
        return iter(self._app.run(self.alist))

    async def acount(self) -> int:
        """How many there are."""
        return sum([len(page.jobs) async for page in self._pages()])

    def __len__(self) -> int:
        return self._app.run(self.acount)

    async def areplay(self, *, from_start: bool = False) -> int:
        """Give each all its retries again; returns how many there were.

        They keep their steps and checkpoints, unless they begin `from_start`.
        """
        count = 0
        async for page in self._pages():
            ids = [job.id for job in page.jobs]
            count += sum(await self._app.areplay(ids, from_start=from_start))
        return count

    def replay(self, *, from_start: bool = False) -> int:
        """Give each all its retries again; returns how many there were.

        They keep their steps and checkpoints, unless they begin `from_start`.
        """
        return self._app.run(lambda: self.areplay(from_start=from_start))

    async def apurge(self) -> int:
        """Delete them with their history; returns how many there were."""
        count = 0
        async for page in self._pages():
            ids = [job.id for job in page.jobs]
            count += sum(await self._app.apurge(ids))
        return count

    def purge(self) -> int:
        """Delete them with their history; returns how many there were."""
        return self._app.run(self.apurge)
