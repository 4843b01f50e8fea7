"""`dead`: the jobs that failed for good."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import click

from mulligan.cli.find_app import (
    about_a_store,
    about_an_app_or_store,
    find_app,
    json_option,
    with_store,
    yes_option,
)
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.jobs import print_page, print_traceback, read_page
from mulligan.cli.show import console, job_json, print_json, progress
from mulligan.core.errors import InvalidError
from mulligan.core.job import Attempt, Job
from mulligan.core.page import Page, Selection
from mulligan.stores.contract import Store

PAGE = 500
AT_ONCE = 50
Change = Callable[[Store, Sequence[str]], Coroutine[Any, Any, list[bool]]]

queue_option = click.option("-q", "--queue", help="Only dead letters of this queue.")
text_option = click.option("--text", help="Only those whose last failure contains this text.")


@click.group()
def dead() -> None:
    """List, replay or purge the jobs that failed for good."""


@dead.command("list")
@queue_option
@text_option
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True,
    help="How many to list.",
)  # fmt: skip
@click.option("--after", metavar="CURSOR", help="The cursor that the last listing ended with.")
@click.option("--traces", is_flag=True, help="Show the traceback of each last failure.")
@json_option
@about_an_app_or_store
def list_(
    *, named: str | None, queue: str | None, text: str | None, limit: int, after: str | None,
    traces: bool, as_json: bool, app: str | None, store: str | None,
) -> None:  # fmt: skip
    """List dead letters, each with its last failure."""
    wanted = Selection(status="failed", queue=queue, text=text)

    async def read(opened: Store) -> tuple[Page, float, dict[str, Attempt]]:
        page, now = await read_page(opened, wanted, limit, after)
        return page, now, await last_failures(opened, page.jobs) if traces else {}

    page, now, failures = with_store(find_app(named, app, store, looks=True), read)
    if as_json:
        shown = [job_json(each) for each in page.jobs]
        if traces:
            said = {job: failure.traceback for job, failure in failures.items()}
            shown = [each | {"traceback": said.get(each["id"])} for each in shown]
        print_json({"jobs": shown, "after": page.after})
    elif page.jobs:
        print_page(page, now)
        for job, failure in failures.items():
            print_traceback(console(), failure, job)
    else:
        click.echo("No dead letters.")


async def last_failures(store: Store, jobs: Sequence[Job]) -> dict[str, Attempt]:
    """The last failed attempt of each job that has one, with its traceback."""
    found: dict[str, Attempt] = {}
    for start in range(0, len(jobs), AT_ONCE):
        ids = [job.id for job in jobs[start : start + AT_ONCE]]
        histories = await asyncio.gather(*(store.history(each) for each in ids))
        found |= {job: each[-1] for job, each in zip(ids, histories, strict=True) if each}
    return found


@dead.command()
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@queue_option
@text_option
@click.option("--from-start", is_flag=True, help="Forget recorded steps, checkpoints and progress.")
@yes_option
@json_option
@about_a_store
def replay(job_ids: Sequence[str], *, from_start: bool, **options: Any) -> None:
    """Give dead letters all their retries again; their history is kept.

    Recorded steps do not run again, unless --from-start is given.

    The given jobs, or all that match --queue and --text, or all there are. More than one must
    be confirmed.
    """

    async def apply(store: Store, ids: Sequence[str]) -> list[bool]:
        return await store.replay(ids, from_start=from_start)

    change("replay", "replayed", apply, job_ids, **options)


@dead.command()
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@queue_option
@text_option
@yes_option
@json_option
@about_a_store
def purge(job_ids: Sequence[str], **options: Any) -> None:
    """Delete dead letters with their history.

    The given jobs, or all that match --queue and --text, or all there are. More than one must
    be confirmed.
    """

    async def only_failed(store: Store, ids: Sequence[str]) -> list[bool]:
        """Purge failed jobs only; the store would delete any job that has ended."""
        found = [await store.get(each) for each in ids]
        failed = [each.id for each in found if each is not None and each.status == "failed"]
        gone = dict(zip(failed, await store.purge(failed), strict=True))
        return [gone.get(each, False) for each in ids]

    change("purge", "purged", only_failed, job_ids, **options)


def change(
    verb: str,
    past: str,
    apply: Change,
    job_ids: Sequence[str],
    *,
    queue: str | None,
    text: str | None,
    yes: bool,
    as_json: bool,
    app: str | None,
    store: str | None,
) -> None:
    """Replay or purge jobs in batches; more than one must be confirmed."""
    target = find_app(None, app, store)
    if job_ids and (queue is not None or text is not None):
        raise InvalidError(f"job {job_ids[0]!r} is given with --queue or --text; give either")
    wanted = Selection(status="failed", queue=queue, text=text)
    ids = list(dict.fromkeys(job_ids)) or with_store(target, lambda s: matching(s, wanted))
    if len(ids) > 1 and not yes:
        confirm(f"{verb.capitalize()} {len(ids)} dead letters?", past)
    said = with_store(target, lambda s: in_batches(s, ids, apply, verb), writes=True) if ids else []
    refused = [job for job, done in zip(ids, said, strict=True) if not done]
    if as_json:
        print_json({past: len(ids) - len(refused), "refused": refused})
    elif ids:
        click.echo(f"{past.capitalize()} {len(ids) - len(refused)} of {len(ids)}.")
    else:
        click.echo("No dead letter matches.")
    if refused:
        raise RefusalError(
            f"not {past}: {printable(', '.join(refused[:5]))}{' …' if len(refused) > 5 else ''}"  # noqa: PLR2004
            " (not stored, not failed, or its unique key is taken by another job)",
            1,
        )


def confirm(question: str, past: str) -> None:
    """Ask for confirmation; without an answer nothing is done."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise RefusalError(f"nothing was {past}; --yes skips the question", 1)


async def matching(store: Store, wanted: Selection) -> list[str]:
    """The ids of all jobs selected."""
    ids: list[str] = []
    after: str | None = None
    while True:
        page = await store.page(wanted, PAGE, after, bodies=False)
        ids += [job.id for job in page.jobs]
        after = page.after
        if after is None:
            return ids


async def in_batches(store: Store, ids: Sequence[str], apply: Change, verb: str) -> list[bool]:
    """Apply the change to all, a batch at a time."""
    said: list[bool] = []
    with progress(wanted=len(ids) > PAGE) as bar:
        task = bar.add_task(verb, total=len(ids))
        for start in range(0, len(ids), PAGE):
            part = ids[start : start + PAGE]
            said += await apply(store, part)
            bar.advance(task, len(part))
    return said
