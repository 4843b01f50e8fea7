"""`housekeep`: the chores of a store, without running jobs."""

from pathlib import Path

import click
from msgspec.structs import replace

from mulligan.app.worker import new_worker
from mulligan.cli.exit_reasons import exit_reasons, supervised
from mulligan.cli.find_app import about_an_app_or_store, check_url, find_app
from mulligan.cli.health import bound, health_options
from mulligan.cli.logs import LEVELS, LogFormat, set_up
from mulligan.cli.worker import WorkerRun, log, run_and_exit, set_drain_timeout
from mulligan.core.checks import check_name


@click.command()
@supervised
@health_options
@click.option("--drain-timeout", type=float, metavar="SECONDS",
              help="How long to wait for the store when stopping.")  # fmt: skip
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True,
              help="The lowest level to log.")  # fmt: skip
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="The format of the log.")  # fmt: skip
@about_an_app_or_store
def housekeep(
    named: str | None,
    *,
    name: str,
    supervisor: Path | None,
    orphan_grace: float,
    health_port: int | None,
    health_host: str,
    drain_timeout: float | None,
    log_level: str,
    log_format: LogFormat,
    app: str | None,
    store: str | None,
) -> None:
    """Do the chores of a store without running jobs.

    Promotes what fell due, reclaims what lost workers held, ends what expired and deletes what is
    old. Workers do the same beside their jobs; nothing depends on this being up.
    """
    target = find_app(named, app, store)
    check_url(target.url)
    set_drain_timeout(target, drain_timeout)
    ends = exit_reasons(None, supervisor, orphan_grace)
    # A worker of no queue gets no jobs and does all the chores.
    me = replace(new_worker(target), queues=(), name=name and check_name("name", name))
    set_up(log_level, log_format, me.name)
    log.info("keeping house at %s as %s", target.shown_url, me.name or me.id)
    run_and_exit(WorkerRun(target, me, ends, bound(health_host, health_port)))
