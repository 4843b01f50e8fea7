"""`serve`: the job API, workers in any language, and the dashboard."""

from collections.abc import Sequence
from pathlib import Path

import click

from mulligan.app import Mulligan
from mulligan.app.worker import run_loop
from mulligan.cli.find_app import about_an_app_or_store, check_url, find_app, opened
from mulligan.cli.logs import LEVELS, LogFormat, set_up
from mulligan.cli.signs import report, signs_of_life
from mulligan.core.checks import check_seconds
from mulligan.core.errors import InvalidError


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8420, show_default=True,
              help="The port to listen on; 0 takes a free one.")  # fmt: skip
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE",
              help="A file with a role and a token on each line.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Refuse every write.")
@click.option("--allow-host", "allow_hosts", metavar="HOST", multiple=True,
              help="Another host name of this server; may be repeated.")  # fmt: skip
@click.option("--redact", metavar="KEY", multiple=True,
              help="Hide values under this key too; may be repeated.")  # fmt: skip
@click.option("--request-timeout", "request_within", type=float,
              default=30.0, show_default=True, metavar="SECONDS",
              help="How long the head of a request may take to arrive, and its body.")  # fmt: skip
@click.option("--max-connections", type=click.IntRange(1), default=1000, show_default=True,
              metavar="NUMBER", help="How many connections there may be at a time.")  # fmt: skip
@click.option("--longest-pause", type=float, default=3600.0, show_default=True, metavar="SECONDS",
              help="How long a worker's token may pause a limit of its jobs.")  # fmt: skip
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True,
              help="The lowest level to log.")  # fmt: skip
@click.option("--log-format", type=click.Choice(["text", "json", "app"]), default="text",
              show_default=True,
              help="The format of the log; app leaves it as the app has set it up.")  # fmt: skip
@about_an_app_or_store
def serve(
    named: str | None,
    *,
    host: str,
    port: int,
    token_file: Path | None,
    read_only: bool,
    allow_hosts: Sequence[str],
    redact: Sequence[str],
    request_within: float,
    max_connections: int,
    longest_pause: float,
    log_level: str,
    log_format: LogFormat,
    app: str | None,
    store: str | None,
) -> None:
    """Serve the dashboard, the job API and workers in any language over HTTP.

    On this machine only, unless there are tokens. SIGTERM or Ctrl-C finishes the requests under
    way; a second one stops at once. Any number of servers may run side by side on one store.
    """
    try:
        from mulligan.server import serve as server  # noqa: PLC0415 - only `serve` needs a web server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mulligan"):
            raise
        raise InvalidError(
            f"serve needs {error.name!r}, which is not installed;"
            " run: pip install 'mulligan[server]'"
        ) from error
    request_within = check_seconds("request-timeout", request_within, least=0.001)
    target = find_app(named, app, store)
    check_url(target.url)
    options = server.ServerOptions(
        host,
        port,
        token_file,
        read_only,
        tuple(allow_hosts),
        tuple(redact),
        request_within,
        max_connections,
        check_seconds("longest-pause", longest_pause),
    )
    tokens = server.read_and_check(options)
    set_up(log_level, log_format)
    listening = server.bind(options)

    async def main() -> None:
        async with opened(target, create=not read_only) as open_store:
            url = server.url_of(listening)
            announce(target, url, read_only=read_only, guarded=tokens is not None)
            async with signs_of_life():
                await server.run(
                    target,
                    open_store,
                    options,
                    tokens,
                    listening,
                    declares=bool(target.tasks),
                    tell_ready=lambda: report("READY=1"),
                )

    with listening:
        run_loop(main)


def announce(target: Mulligan, url: str, *, read_only: bool, guarded: bool) -> None:
    """Say what starts, on stderr before the first line of the log."""
    lines = {
        "address": url,
        "store": target.shown_url,
        "tasks": ", ".join(target.tasks) or "any; no app was named",
        "access": "by token" if guarded else "this machine only",
        "writes": "refused" if read_only else "allowed",
    }
    click.secho("mulligan serve", bold=True, err=True)
    for name, value in lines.items():
        click.echo(f"  {name:<12} {value}", err=True)
