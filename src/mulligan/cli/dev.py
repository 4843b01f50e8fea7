"""`dev`: a worker, the server and the dashboard while you write the app."""

import socket
from importlib.util import find_spec

import click

from mulligan.cli.app_facts import read_app_facts
from mulligan.cli.find_app import app_option, named_app
from mulligan.cli.process_group import RELOAD_DRAIN, Member, run_group
from mulligan.core.errors import InvalidError
from mulligan.core.worker import DEFAULT_REGION
from mulligan.stores import redact

HOST = "127.0.0.1"


@click.command()
@click.argument("named", metavar="APP", required=False)
@app_option
@click.option("--port", type=click.IntRange(0, 65535), default=8420, show_default=True,
              help="The port of the dashboard; 0 takes a free one.")  # fmt: skip
@click.option("-r", "--region", default=DEFAULT_REGION, show_default=True,
              help="The worker's region.")  # fmt: skip
@click.option("-c", "--concurrency", type=click.IntRange(min=1),
              help="How many jobs run at a time.")  # fmt: skip
@click.option("--reload/--no-reload", default=True, show_default=True,
              help="Restart when a Python file below this folder changes.")  # fmt: skip
def dev(
    named: str | None,
    *,
    app: str | None,
    port: int,
    region: str,
    concurrency: int | None,
    reload: bool,
) -> None:
    """Run a worker, the server and the dashboard of an app while you write it.

    Both restart when the code changes. Ctrl-C ends them. On this machine only: in production run
    `worker` and `serve`.
    """
    called = named_app(named, app)
    if called is None:
        raise click.MissingParameter(param_hint="'APP'", param_type="argument")
    check_installed(reload=reload)
    url = read_app_facts(called, {}).url
    if url.startswith("memory:"):
        raise InvalidError(
            f"app {called!r} is on memory://, which its worker and its server, two processes, would"
            " not share; use sqlite:///FILE"
        )
    port = free_port(port)
    click.secho("mulligan dev", bold=True, err=True)
    lines = {
        "open": f"http://{HOST}:{port}",
        "app": called,
        "store": redact(url),
        "restarts": "when a Python file here changes" if reload else "never",
        "end": "Ctrl-C",
    }
    for name, value in lines.items():
        click.echo(f"  {name:<12} {value}", err=True)
    worker = ["worker", called, "--region", region, "--drain-timeout", f"{RELOAD_DRAIN:g}"]
    if concurrency is not None:
        worker += ["--concurrency", str(concurrency)]
    server = ["serve", called, "--port", str(port)]
    members = [Member("worker", tuple(worker)), Member("server", tuple(server))]
    run_group(members, reload=reload, prefix=True)


def check_installed(*, reload: bool) -> None:
    """Refuse to start without what the two extras bring, and name both at once."""
    wanted = {"server": "uvicorn", "reload": "watchfiles"}
    missing = {extra: name for extra, name in wanted.items() if find_spec(name) is None}
    if not reload:
        missing.pop("reload", None)
    if missing:
        names = " and ".join(map(repr, missing.values()))
        without = ", or give --no-reload" if [*missing] == ["reload"] else ""
        raise InvalidError(
            f"dev needs {names}, which {'is' if len(missing) == 1 else 'are'} not installed;"
            f" run: pip install 'mulligan[{','.join(missing)}]'{without}"
        )


def free_port(port: int) -> int:
    """The port, if nobody listens there; any free one for 0."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError as error:
            raise InvalidError(
                f"port {port} of {HOST} cannot be used: {error.strerror}; choose another by --port"
            ) from error
        found: int = tried.getsockname()[1]
        return found
