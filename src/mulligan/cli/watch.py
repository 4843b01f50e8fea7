"""`watch`: follows one job until it has ended."""

import asyncio
from asyncio import sleep as pause
from typing import Any

import click
from msgspec import to_builtins
from rich.text import Text

from mulligan.cli.find_app import about_a_store, json_option
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.records import progress_text, result_text
from mulligan.cli.show import STYLES, as_json, console, moment
from mulligan.cli.target import target_of
from mulligan.core.job import ENDED
from mulligan.core.record import LogLine, Progress, Records, Step

LOOK_EVERY = 0.2
SEEN = ("status", "retry_count", "replay", "worker", "awaits", "waits_for")


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
@about_a_store
def watch(job_id: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Follow one job until it has ended.

    A line for each change, with why the job is where it is; and for what it records: steps,
    progress, log lines. The exit code is 0 when it is done, 1 when it failed or was cancelled. With
    --json, one object a line.
    """

    async def follow() -> str:
        async with target_of(None, app, store) as target:
            seen: tuple[Any, ...] = ()
            news = RecordNews()
            while True:
                job = await target.job(job_id)
                if job is None:
                    raise RefusalError(f"no job {job_id!r} is stored there", 1)
                now = tuple(job.get(name) for name in SEEN)
                for line in news.of(await target.records(job_id)):
                    tell_record(job_id, line, as_json=as_json)
                if now != seen:
                    seen = now
                    tell(job, as_json=as_json)
                if job["status"] in ENDED:
                    return str(job["status"])
                await pause(LOOK_EVERY)

    try:
        status = asyncio.run(follow())
    except KeyboardInterrupt:
        return
    if status != "done":
        raise SystemExit(1)


def tell(job: dict[str, Any], *, as_json: bool) -> None:
    """Print what changed, on one line."""
    if as_json:
        click.echo(line_of(job))
        return
    status = job["status"]
    when = job.get("ended_at") or job.get("started_at") or job.get("created_at")
    console().print(
        Text.assemble(
            (moment(when) or "", "dim"),
            "  ",
            (f"{status:<10}", STYLES.get(status, "")),
            "  ",
            printable(str(job["explanation"])),
        ),
        soft_wrap=True,
    )


def line_of(job: dict[str, Any]) -> str:
    """The job as one line of JSON, without its payload."""
    return as_json({name: job.get(name) for name in ("id", *SEEN, "explanation")})


class RecordNews:
    """What is new in the records of a job since the last look."""

    def __init__(self) -> None:
        self._steps: set[str] = set()
        self._progress: Progress | None = None
        self._log: list[LogLine] = []

    def of(self, records: Records) -> list[Step | Progress | LogLine]:
        """The new steps, lines and progress, in the order of their times."""
        news: list[Step | Progress | LogLine] = []
        news += [each for each in records.steps if each.name not in self._steps]
        news += new_lines(self._log, records.log)
        if records.progress is not None and records.progress != self._progress:
            news.append(records.progress)
        self._steps = {each.name for each in records.steps}
        self._progress, self._log = records.progress, records.log
        return sorted(news, key=lambda each: each.at or 0.0)


def new_lines(before: list[LogLine], now: list[LogLine]) -> list[LogLine]:
    """The lines after the last one that was seen; all, where it is no longer among them."""
    for at in range(len(now), 0, -1):
        if before and now[:at] == before[-at:]:
            return now[at:]
    return now


def tell_record(job: str, news: Step | Progress | LogLine, *, as_json: bool) -> None:
    """Print what a job has recorded, on one line."""
    match news:
        case Step():
            name, said = "step", Text(f"{printable(news.name)}: {printable(result_text(news))}")
        case Progress():
            name, said = "progress", progress_text(news)
        case LogLine():
            name, said = "log", Text(printable(news.text))
    if as_json:
        click.echo(record_line(job, name, news))
        return
    when = (moment(news.at) or "", "dim")
    console().print(Text.assemble(when, "  ", (f"{name:<10}", "cyan"), "  ", said), soft_wrap=True)


def record_line(job: str, name: str, news: Step | Progress | LogLine) -> str:
    """The record as one line of JSON."""
    return as_json({"id": job, name: to_builtins(news)})
