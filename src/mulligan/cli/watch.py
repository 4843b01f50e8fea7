"""`watch`: follows one job until it has ended."""

import asyncio
from asyncio import sleep as pause
from typing import Any

import click
from rich.text import Text

from mulligan.cli.find_app import about_a_store, json_option
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.show import STYLES, as_json, console, moment
from mulligan.cli.target import target_of
from mulligan.core.job import ENDED

LOOK_EVERY = 0.2
SEEN = ("status", "retry_count", "replay", "worker", "awaits", "held")


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
@about_a_store
def watch(job_id: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Follow one job until it has ended.

    A line for each change, with why the job is where it is. The exit code is 0 when it is done,
    1 when it failed or was cancelled. With --json, one object a line.
    """

    async def follow() -> str:
        async with target_of(None, app, store) as target:
            seen: tuple[Any, ...] = ()
            while True:
                job = await target.job(job_id)
                if job is None:
                    raise RefusalError(f"no job {job_id!r} is stored there", 1)
                now = tuple(job.get(name) for name in SEEN)
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
