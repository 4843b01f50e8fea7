"""`job`, `jobs` and `explain`: show jobs."""

from typing import Any, get_args

import click
from rich.console import Console
from rich.text import Text

from mulligan.app.explain import explain_job
from mulligan.app.stages import StageView, family
from mulligan.cli.find_app import (
    about_a_store,
    about_an_app_or_store,
    find_app,
    json_option,
    with_store,
)
from mulligan.cli.group import printable
from mulligan.cli.records import print_records, records_json
from mulligan.cli.show import (
    as_json,
    coloured,
    console,
    decoded,
    job_json,
    moment,
    print_json,
    span,
    table,
)
from mulligan.cli.stages import stage_json, tree_of
from mulligan.core.errors import InvalidError, UnknownJobError
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import WORDS, Priority
from mulligan.core.limits import costs_of
from mulligan.core.page import Page, Selection
from mulligan.core.record import SHOWN_LIMIT, Records, shown
from mulligan.stores import redact
from mulligan.stores.contract import Store

# How much of a reason a list of jobs shows.
REASON_SHOWN = 200
PRIORITIES = {number: word for word, number in WORDS.items()}


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
@about_a_store
def explain(job_id: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Say in one sentence why a job is where it is.

    What it waits for and until when, how many are ahead of it in which lane, and what holds it.
    """
    target = find_app(None, app, store, looks=True)
    sentence = with_store(target, lambda opened: explain_job(opened, job_id, target.called))
    if as_json:
        print_json({"job_id": job_id, "explanation": sentence})
    else:
        click.echo(printable(sentence))


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
@about_a_store
def job(job_id: str, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Show everything about one job, with its history and what it has recorded.

    The history is its failed and lost attempts, oldest first, across replays. Recorded are steps,
    progress, log lines and a checkpoint.
    """

    async def read(opened: Store) -> tuple[Job, list[Attempt], str, list[StageView], Records]:
        found = await opened.get(job_id)
        if found is None:
            raise UnknownJobError(
                f"no job {job_id!r} is stored in {redact(opened.url)}; done jobs are deleted after"
                " a while; list those that are there with: mulligan jobs"
            )
        history = await opened.history(job_id)
        sentence = await explain_job(opened, job_id, target.called)
        recorded = shown(await opened.records(job_id, SHOWN_LIMIT))
        return found, history, sentence, await family(opened, found), recorded

    target = find_app(None, app, store, looks=True)
    found, history, sentence, stages, recorded = with_store(target, read)
    if as_json:
        said = job_json(found, history) | {"explanation": sentence} | records_json(recorded)
        print_json(said | ({"stages": [stage_json(each) for each in stages]} if stages else {}))
        return
    out = console()
    out.print(table("", ("field", "~value"), fields(found)))
    out.print(printable(sentence), style="bold")
    if rows := [*map(attempt_row, history), *success_row(found)]:
        out.print()
        columns = ("#attempt", "region", "started", "#took", "#next in", "~outcome")
        out.print(table("History", columns, rows))
    if history:
        print_traceback(out, history[-1])
    print_records(out, recorded)
    if stages:
        out.print()
        out.print(tree_of(stages, found.id))


def fields(job: Job) -> list[tuple[str, Any]]:
    """The fields of a job, the most important first."""
    body = decoded(job.body)
    body = body if isinstance(body, dict) else {"body": body}
    rows: list[tuple[str, Any]] = [
        ("id", job.id),
        ("status", coloured(job.status)),
        ("task", job.task),
        *((name, as_json(value)) for name, value in body.items() if name != "task"),
        ("queue", job.queue),
        ("region", job.region),
        ("priority", PRIORITIES.get(Priority(job.priority), str(job.priority))),
        ("lane", f"{job.lane.label}, scope {job.scope}"),
        ("attempt", f"{job.retry_count + 1} (retry_count {job.retry_count})"),
        ("created", moment(job.created_at)),
        ("due", moment(job.due)),
    ]
    optional: list[tuple[str, Any]] = [
        ("started", moment(job.started_at)),
        ("last retry", moment(job.last_retry_at)),
        ("ended", moment(job.ended_at)),
        ("expires", moment(job.expires_at)),
        ("debounced until", moment(job.debounce_until)),
        ("key held until", moment(job.unique_until)),
        ("kept", kept_text(job)),
        ("worker", job.worker),
        ("worker region", job.worker_region),
        ("unique key", job.unique_key),
        ("limits", limits_text(job)),
        ("fairness key", job.fairness_key),
        ("replay", job.replay or None),
        ("snoozes", job.snoozes or None),
        ("last failure", job.last_failure_reason),
        ("cancelled because", job.cancel_reason),
        ("result", None if job.result is None else as_json(decoded(job.result))),
    ]
    return rows + [row for row in optional if row[1] is not None]


def kept_text(job: Job) -> str | None:
    """For how long the job says that it is kept, and until when that is."""
    if job.keep is None:
        return None
    until = job.kept_until(job.keep)
    said = f"for {job.keep} s after it has ended"
    return said if until is None else f"{said}, until {moment(until)}"


def limits_text(job: Job) -> str | None:
    """The limits that it names, with costs that are not 1, and the one that it waits for."""
    named = [name if cost == 1 else f"{name} ({cost})" for name, cost in costs_of(job.limits)]
    said = ", ".join(named) or None
    return said if job.waits_for is None else f"{said}; waits for {job.waits_for}"


def print_traceback(out: Console, attempt: Attempt, job: str | None = None) -> None:
    """The traceback of an attempt, if it has one: files are dim, what was raised is red."""
    if attempt.traceback is None:
        return
    out.print()
    whose = f"attempt {attempt.number}" + ("" if job is None else f" of job {printable(job)}")
    out.print(Text(f"Traceback of {whose}", "bold"))
    for line in attempt.traceback.splitlines():
        out.print(Text(f"  {printable(line)}", style_of(line)), soft_wrap=True)


def style_of(line: str) -> str:
    """The colour of a line of a traceback."""
    inner = line.lstrip(" |+")
    if inner.startswith(("File ", "Traceback", "[…", "The above", "During", "---")):
        return "dim"
    return "" if line.startswith("    ") else "red"


def attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    """A line of the history."""
    took = None if attempt.ended_at is None else span(attempt.ended_at - attempt.started_at)
    number = f"{attempt.number}" + (f" (replay {attempt.replay})" if attempt.replay else "")
    code = f" [{attempt.code}]" if attempt.code else ""
    return (
        number,
        attempt.region,
        moment(attempt.started_at),
        took,
        "no more" if attempt.delay is None else span(attempt.delay),
        f"{attempt.type}{code}: {attempt.message}",
    )


def success_row(job: Job) -> list[tuple[Any, ...]]:
    """The line of the attempt that succeeded, if one has."""
    if job.status != "done" or job.started_at is None or job.ended_at is None:
        return []
    number = f"{job.retry_count + 1}" + (f" (replay {job.replay})" if job.replay else "")
    took = span(job.ended_at - job.started_at)
    return [(number, job.worker_region, moment(job.started_at), took, None, "succeeded")]


@click.command()
@click.option("--status", type=click.Choice(get_args(Status)), help="Only jobs with this status.")
@click.option("-q", "--queue", help="Only jobs of this queue.")
@click.option("--region", help="Only jobs enqueued for this region.")
@click.option("-t", "--task", help="Only jobs of this task.")
@click.option("--text", help="Only jobs whose last failure contains this text.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True,
    help="How many to list.",
)  # fmt: skip
@click.option("--after", metavar="CURSOR", help="The cursor that the last listing ended with.")
@json_option
@about_an_app_or_store
def jobs(
    *, named: str | None, limit: int, after: str | None, as_json: bool, app: str | None,
    store: str | None, **selection: Any,
) -> None:  # fmt: skip
    """List jobs, newest first as far as the store keeps an order."""
    wanted = Selection(**selection)
    target = find_app(named, app, store, looks=True)
    page, now = with_store(target, lambda opened: read_page(opened, wanted, limit, after))
    if as_json:
        print_json({"jobs": [job_json(each) for each in page.jobs], "after": page.after})
    else:
        print_page(page, now)


async def read_page(
    store: Store, wanted: Selection, limit: int, after: str | None
) -> tuple[Page, float]:
    """A page of jobs, and the store's time."""
    try:
        page = await store.page(wanted, limit, after)
        while not page.jobs and page.after is not None:  # a text is searched page by page
            page = await store.page(wanted, limit, page.after)
    except ValueError as error:
        if after is None:
            raise
        raise InvalidError(
            f"cursor {after!r} is not one that a listing of this store gave"
        ) from error
    return page, (await store.stats()).now


def brief(reason: str | None) -> str | None:
    """A reason as lists show it; `mulligan job` shows the whole."""
    if reason is None or len(reason) <= REASON_SHOWN:
        return reason
    return f"{reason[: REASON_SHOWN - 1]}…"


def print_page(page: Page, now: float) -> None:
    """A page of jobs as a table, and how to see the next."""
    if not page.jobs:
        click.echo("No job matches.")
        return
    columns = ("=job", "task", "queue", "region", "status", "#retries", "#age", "~last failure")
    rows = [
        (
            each.id,
            each.task,
            each.queue,
            each.region,
            coloured(each.status),
            each.retry_count,
            span(now - each.created_at),
            brief(each.cancel_reason or each.last_failure_reason),
        )
        for each in page.jobs
    ]
    console().print(table("", columns, rows))
    if page.after is not None:
        click.echo(f"There are more; go on with: --after {page.after}")
