"""`demo`: runs jobs that fail, retry and succeed, and shows them."""

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import click
from rich.live import Live

from mulligan.app.overview import overview
from mulligan.cli.demo.app import LEDGER, QUEUE, SEED, URL
from mulligan.cli.demo.questions import POISON, REGIONS, VICTIM, held, waves
from mulligan.cli.demo.state import DemoState, Event
from mulligan.cli.demo.summary import summary
from mulligan.cli.demo.totals import Story, Totals, totals
from mulligan.cli.demo.view import picture
from mulligan.cli.demo.workers import DemoWorkers
from mulligan.cli.group import RefusalError
from mulligan.cli.show import console
from mulligan.core.checks import check_seconds
from mulligan.core.errors import MulliganError
from mulligan.core.page import Selection
from mulligan.core.status import is_global_retry
from mulligan.stores import make_store
from mulligan.stores.contract import Store

LOOK_EVERY = 0.1
KILL_AT = 0.48
USUAL_SECONDS = 13.0
PAGE = 500


@click.command()
@click.option("--seconds", type=click.FloatRange(2, 600), default=USUAL_SECONDS, show_default=True,
              help="About how long it takes.")  # fmt: skip
@click.option("--jobs", "count", type=click.IntRange(20, 1000), default=120, show_default=True,
              help="How many questions are asked.")  # fmt: skip
@click.option("--seed", type=int, default=7, show_default=True, help="Which questions go wrong.")
@click.option("--plain", is_flag=True, help="Print lines instead of a live view.")
@click.option("--keep/--no-keep", default=True, show_default=True,
              help="Keep the store, to look at afterwards.")  # fmt: skip
def demo(*, seconds: float, count: int, seed: int, plain: bool, keep: bool) -> None:
    """Watch jobs fail, retry elsewhere and succeed, on this machine.

    Three worker processes, one per region, share a SQLite file in a temporary folder. One region
    has a bad network, one worker is killed half-way, one question has no answer. Exit code 1 if
    in the end the numbers do not add up.
    """
    check_seconds("seconds", seconds)
    folder = Path(tempfile.mkdtemp(prefix="mulligan-demo-"))
    live = not plain and sys.stdout.isatty()
    try:
        run = DemoRun(folder, seconds, count, seed, live=live)
        result = asyncio.run(run.run())
        for line in summary(result, run.url if keep else None, run.took):
            click.echo(line)
    except KeyboardInterrupt:
        raise RefusalError("interrupted; its workers are stopped", 130) from None
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if result.problems:
        raise RefusalError(f"the numbers do not add up: {'; '.join(result.problems)}", 1)


class DemoRun:
    """One run of the demo."""

    def __init__(self, folder: Path, seconds: float, count: int, seed: int, *, live: bool) -> None:
        self.url = f"sqlite:///{quote(str(folder / 'demo.db'))}"
        self._seconds = seconds
        self._ledger = folder / "ledger"
        self._ledger.touch()
        self._waves = waves(count - 1, seed, seconds / USUAL_SECONDS)
        self._live = live
        self._enqueued: list[str] = []
        self.began = time.monotonic()
        self.took = 0.0
        self._state = DemoState(REGIONS, count, self._say)
        environment = {URL: self.url, SEED: str(seed), LEDGER: str(self._ledger)}
        self._workers = DemoWorkers(environment, self._state.on_message)

    async def run(self) -> Totals:
        """Start the workers, play the demo, stop them, and count."""
        main = asyncio.current_task()
        assert main is not None  # noqa: S101 - we are in one
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, main.cancel)
        store = make_store(self.url)
        await store.open()
        try:
            await self._workers.start(*REGIONS)
            self.began = time.monotonic()
            self._state.add_event("", f"{len(REGIONS)} workers are ready: {', '.join(REGIONS)}")
            await self._perform(store)
            self.took = time.monotonic() - self.began
            await self._workers.stop()
            lines = self._ledger.read_text().splitlines()
            return totals(self._enqueued, await stories(store), lines, POISON)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            await self._workers.stop()
            await store.close()

    async def _perform(self, store: Store) -> None:
        parts = asyncio.gather(self._feed(store), self._kill_one(store))
        screen = Live(console=console(), auto_refresh=False) if self._live else None
        deadline = self._seconds * 3 + 60
        with screen or contextlib.nullcontext():
            try:
                async with asyncio.timeout(deadline):
                    while not (parts.done() and self._over()):
                        self._workers.check()
                        await self._look(store)
                        if screen is not None:
                            width = screen.console.width
                            screen.update(picture(self._state, width), refresh=True)
                        await asyncio.sleep(LOOK_EVERY)
                    await parts
            except TimeoutError as error:
                raise MulliganError(
                    f"after {deadline:g} s {self._state.count('done')} jobs of"
                    f" {self._state.total} are done; on a machine this busy try --seconds 60"
                ) from error
            finally:
                parts.cancel()
                await asyncio.gather(parts, return_exceptions=True)

    async def _look(self, store: Store) -> None:
        state = self._state
        stats = await store.stats()
        state.status = await overview(store)
        state.backing_off = sum(c.delayed for c in stats.lanes if is_global_retry(c.lane))
        state.elapsed = time.monotonic() - self.began

    def _over(self) -> bool:
        return self._state.count("done") + self._state.count("failed") == len(self._enqueued)

    async def _feed(self, store: Store) -> None:
        for wave in self._waves:
            await self._until(wave.at)
            self._enqueued += [job.id for job in wave.jobs]
            await store.enqueue(wave.jobs)
            self._state.add_event("", f"{len(wave.jobs)} questions arrive")

    async def _kill_one(self, store: Store) -> None:
        """Kill a worker while it holds a job; when its job is done elsewhere, replace it."""
        await self._until(KILL_AT)
        job = held()
        self._enqueued.append(job.id)
        await store.enqueue([job])
        await self._runs(store, job.id, "processing")
        self._state.dead_regions.add(VICTIM)
        pid = await self._workers.kill(VICTIM)
        self._state.add_event(
            VICTIM, f"kill -9 {pid}: its worker dies holding {job.id}", "bold red"
        )
        await self._runs(store, job.id, "done")
        await self._workers.start(VICTIM)
        self._state.dead_regions.discard(VICTIM)
        self._state.add_event(VICTIM, "a new worker takes its place", "bold")

    async def _runs(self, store: Store, job: str, status: str) -> None:
        while (found := await store.get(job)) is None or found.status != status:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY / 4)

    async def _until(self, share: float) -> None:
        await asyncio.sleep(max(0.0, self.began + share * self._seconds - time.monotonic()))

    def _say(self, event: Event) -> None:
        if not self._live:
            done = f"{self._state.count('done')}/{self._state.total} done"
            elapsed = time.monotonic() - self.began
            click.echo(f"{elapsed:5.1f} s  {done:>13}  {event.region:<5} {event.text}")


async def stories(store: Store) -> list[Story]:
    """Every job with its history."""
    page = await store.page(Selection(queue=QUEUE), PAGE)
    jobs = page.jobs
    while page.after is not None:
        page = await store.page(Selection(queue=QUEUE), PAGE, page.after)
        jobs = jobs + page.jobs
    return [(job, await store.history(job.id)) for job in jobs]
