"""`worker`: runs jobs until it is stopped."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from mulligan.app import Mulligan
from mulligan.app.resources import name_of
from mulligan.app.worker import new_worker, run_loop, work
from mulligan.cli.exit_reasons import ExitReason, end_when, exit_reasons, supervised
from mulligan.cli.find_app import app_option, check_url, load_app, named_app, with_variables
from mulligan.cli.garbage import spare_garbage_collection
from mulligan.cli.group import RefusalError
from mulligan.cli.health import bound, health_options, probes
from mulligan.cli.logs import LEVELS, LogFormat, set_up
from mulligan.cli.process_group import (
    RELOAD_DRAIN,
    Member,
    check_reload,
    given_arguments,
    is_member,
    run_group,
)
from mulligan.cli.signs import report, signs_of_life
from mulligan.core.checks import check_name, check_seconds
from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.core.fetch import Only
from mulligan.core.worker import DEFAULT_REGION, Worker
from mulligan.engine.loops import cancel_tasks
from mulligan.engine.threads import default_limit
from mulligan.engine.worker import Engine

log = logging.getLogger("mulligan.worker")
# How long a worker that was signalled twice may take to commit its outcomes.
HURRY = 2.0


@with_variables
@click.command()
@click.argument("named", metavar="APP", required=False)
@app_option
@click.option(
    "-r", "--region", default=DEFAULT_REGION, show_default=True, help="The worker's region."
)
@click.option(
    "-q", "--queues", "--queue", metavar="A,B", help="Queues to serve; all of the app's if absent."
)
@click.option(
    "-c", "--concurrency", type=click.IntRange(min=1), help="How many jobs run at a time."
)
@click.option("--threads", type=click.IntRange(min=1), envvar="MULLIGAN_THREADS",
              show_envvar=True, help="How many plain functions run at a time.")  # fmt: skip
@click.option("--pool-size", type=click.IntRange(min=1),
              help="How many child processes run tasks with pool=process.")  # fmt: skip
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True,
              help="How many workers to run, each in a process of its own.")  # fmt: skip
@click.option("--reload", is_flag=True,
              help="Restart when a Python file below this folder changes.")  # fmt: skip
@click.option("--only", type=click.Choice(["retries", "fresh"]),
              help="Serve one kind of job, for queues with policy separate.")  # fmt: skip
@click.option("--hold-through-backoff/--no-hold-through-backoff", default=None,
              envvar="MULLIGAN_HOLD_THROUGH_BACKOFF", show_envvar=True,
              help="Leave the slot of a failed job idle until its retry is due.")  # fmt: skip
@click.option("--idle-exit", type=float, metavar="SECONDS",
              help="Exit when nothing has run for so long.")  # fmt: skip
@supervised
@health_options
@click.option("--drain-timeout", type=float, metavar="SECONDS",
              help="How long to wait for running jobs when stopping.")  # fmt: skip
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True,
              help="The lowest level to log.")  # fmt: skip
@click.option("--log-format", type=click.Choice(["text", "json", "app"]), default="text",
              show_default=True,
              help="The format of the log; app leaves it as the app has set it up.")  # fmt: skip
def worker(
    named: str | None,
    *,
    app: str | None,
    region: str,
    queues: str | None,
    concurrency: int | None,
    threads: int | None,
    pool_size: int | None,
    processes: int,
    reload: bool,
    only: Only | None,
    hold_through_backoff: bool | None,
    idle_exit: float | None,
    name: str,
    supervisor: Path | None,
    orphan_grace: float,
    health_port: int | None,
    health_host: str,
    drain_timeout: float | None,
    log_level: str,
    log_format: LogFormat,
) -> None:
    """Run jobs of an app until stopped.

    SIGTERM or Ctrl-C lets running jobs finish and starts no more; a second one stops at once, and
    the jobs cut off are run by another worker. Exit code 0 after a clean stop, 1 if jobs were cut
    off. Any number of workers may run side by side, in any regions.

    An option that is not given is taken from its environment variable.
    """
    called = named_app(named, app)
    if called is None:
        raise click.MissingParameter(param_hint="'APP'", param_type="argument")
    if processes > 1 or reload:
        set_up(log_level, log_format)
        listening = bound(health_host, health_port)
        prefix = log_format == "text"
        run_several(called, processes, reload=reload, prefix=prefix, name=name, listening=listening)
        return
    found = load_app(called)
    check_url(found.url)
    set_drain_timeout(found, drain_timeout)
    given = {
        "threads": threads,
        "pool_size": pool_size,
        "hold_through_backoff": hold_through_backoff,
    }
    said = {name: value for name, value in given.items() if value is not None}
    found.settings = replace(found.settings, **said)
    ends = exit_reasons(idle_exit, supervisor, orphan_grace)
    served = [name.strip() for name in queues.split(",")] if queues is not None else []
    me = new_worker(found, region=region, queues=served, concurrency=concurrency, only=only)
    me = replace(me, name=name and check_name("name", name))
    own = {task.function.__module__.partition(".")[0] for task in found.tasks.values()}
    set_up(log_level, log_format, me.name, own)
    brief = log_format != "text" or supervisor is not None or is_member()
    announce(called, found, me, brief=brief)
    run_and_exit(WorkerRun(found, me, ends, bound(health_host, health_port)))


def run_several(
    called: str,
    processes: int,
    *,
    reload: bool,
    prefix: bool,
    name: str,
    listening: socket.socket | None,
) -> None:
    """Run so many workers under this command, each with the options that were given."""
    from mulligan.cli.app_facts import read_app_facts  # noqa: PLC0415 - few workers need it

    if reload:
        check_reload()
    elif read_app_facts(called, {}).url.startswith("memory:"):
        raise InvalidError(
            f"app {called!r} is on memory://, which {processes} processes would not share;"
            " use sqlite:///FILE"
        )
    context = click.get_current_context()
    ours = ("app", "processes", "reload", "name", "health_port", "health_host")
    options = given_arguments(context, ours)
    if reload and context.params["drain_timeout"] is None:
        options += ["--drain-timeout", f"{RELOAD_DRAIN:g}"]
    base = name or "worker"
    names = [f"{base}-{number}" if processes > 1 else base for number in range(1, processes + 1)]
    members = [Member(each, ("worker", called, "--name", each, *options)) for each in names]
    run_group(members, reload=reload, prefix=prefix, listening=listening)


def set_drain_timeout(app: Mulligan, seconds: float | None) -> None:
    """Use the drain timeout of the command line instead of the app's."""
    if seconds is not None:
        checked = check_seconds("drain-timeout", seconds)
        app.settings = replace(app.settings, drain_timeout=checked)


def run_and_exit(run: "WorkerRun") -> None:
    """Run the worker to its end, and exit with its code."""
    run_loop(run.run)
    if run.worn:
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - itself
    if run.cut_off:
        raise RefusalError("stopped before all jobs had ended; they will be run elsewhere", 1)


class WorkerRun:
    """One run of a worker: it stops on a signal, or when an exit reason has held long enough."""

    def __init__(
        self,
        app: Mulligan,
        me: Worker,
        ends: Sequence[ExitReason] = (),
        listening: socket.socket | None = None,
    ) -> None:
        self._app = app
        self._listening = listening
        self._me = me
        self._ends = ends
        self._looking: list[asyncio.Task[None]] = []
        self._engine: Engine | None = None
        self._main: asyncio.Task[Any] | None = None
        self._signals = 0
        self.worn = False
        self.cut_off = False

    async def run(self) -> None:
        """Run until stopped, or until the worker should be replaced."""
        loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told)
        try:
            async with probes(self._listening, self._unready), signs_of_life(self._unready):
                engine = await work(self._app, self._me, self._ready)
        except asyncio.CancelledError:
            self.cut_off = self._engine is not None
        except OSError as error:
            raise StoreUnavailableError(
                f"store {self._app.shown_url} cannot be opened: {error}"
            ) from error
        else:
            self.cut_off = engine.cut_off
            self.worn = engine.worn and not self._signals
            log.info("stopped")
        finally:
            await cancel_tasks(self._looking)

    def _unready(self) -> str:
        return "starting" if self._engine is None else self._engine.unready

    def _ready(self, engine: Engine) -> None:
        self._engine = engine
        spare_garbage_collection()
        self._looking = [asyncio.create_task(end_when(each, engine)) for each in self._ends]
        report("READY=1")
        log.info("ready for jobs")

    def _told(self) -> None:
        """Handle a signal: drain at the first, stop at the second, exit at once at the third."""
        self._signals += 1
        loop = asyncio.get_running_loop()
        if self._engine is None and self._main is not None:
            self._main.cancel()
        elif self._signals == 1 and self._engine is not None:
            log.info("asked to stop; a second signal stops at once")
            report("STOPPING=1")
            self._engine.stop()
        elif self._signals == 2 and self._engine is not None:  # noqa: PLR2004
            log.warning("asked twice; stopping at once")
            self._engine.stop()
            assert self._main is not None  # noqa: S101 - set before any signal arrives
            loop.call_later(HURRY, self._main.cancel)
        else:
            os._exit(1)


def announce(named: str, app: Mulligan, me: Worker, *, brief: bool) -> None:
    """Say on stderr what starts: as the first line of the log, or in full before it."""
    lines = {
        **({"name": me.name} if me.name else {}),
        "app": named,
        "store": app.shown_url,
        "region": me.region,
        "queues": ", ".join(me.queues) + (f" (only {me.only})" if me.only else ""),
        "concurrency": str(me.concurrency),
        "threads": str(app.settings.threads or default_limit()),
        **({"pool": f"{pool_size(app, me)} child processes"} if pooled(app) else {}),
        "tasks": ", ".join(app.tasks) or "none",
        **hooks_of(app),
        "loop": loop_name(),
    }
    if app.settings.hold_through_backoff:
        lines["holds"] = "a slot through the backoff of the job that failed in it"
    if brief:
        log.info("worker %s starts: %s", me.id, "; ".join(f"{k} {v}" for k, v in lines.items()))
        return
    click.secho(f"mulligan worker {me.id}", bold=True, err=True)
    for name, value in lines.items():
        click.echo(f"  {name:<12} {value}", err=True)
    if not app.tasks:
        module = named.rpartition(":")[0]
        click.echo(f"note: {module} declares no task; import there what declares them", err=True)
    elif not set(me.queues) & set(app.queue_names):
        click.echo(
            f"note: no task of {named} is in queue {', '.join(me.queues)}; its queues are:"
            f" {', '.join(app.queue_names)}",
            err=True,
        )
    if app.url.startswith("memory:"):
        click.echo("note: memory:// is seen by this process alone; use sqlite:///…", err=True)


def hooks_of(app: Mulligan) -> dict[str, str]:
    """The kinds of hooks that the app has, and their names."""
    named = {
        "lifespan": [] if app.lifespan is None else [name_of(app.lifespan)],
        "middleware": [each.name for each in app.middlewares],
        "events": [f"{each.name} on {on}" for on, all_ in app.event_hooks.items() for each in all_],
    }
    return {kind: ", ".join(names) for kind, names in named.items() if names}


def pooled(app: Mulligan) -> bool:
    """Whether a task of the app runs in child processes."""
    return any(task.runs.pool is not None for task in app.tasks.values())


def pool_size(app: Mulligan, me: Worker) -> int:
    """How many child processes the worker may have."""
    from mulligan.engine.processes import default_size  # noqa: PLC0415 - few apps have such tasks

    return min(app.settings.pool_size or default_size(), me.concurrency)


def loop_name() -> str:
    """The event loop that `run_loop` will use."""
    try:
        import uvloop  # noqa: F401, PLC0415 - optional
    except ImportError:
        return f"asyncio (Python {sys.version.split()[0]})"
    return f"uvloop (Python {sys.version.split()[0]})"
