"""Finds the app or store that a command names, and opens its store."""

import asyncio
import sys
import sysconfig
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import click

from mulligan.app import Mulligan
from mulligan.app.task import Task
from mulligan.cli.group import printable
from mulligan.core.errors import InvalidError, MulliganError, StoreUnavailableError
from mulligan.stores import make_store, redact
from mulligan.stores.contract import HasShards, Store

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])
# Longer than a healthy store takes to open.
OPEN_WITHIN = 15.0

app_option = click.option(
    "-a",
    "--app",
    "app",
    metavar="APP",
    envvar="MULLIGAN_APP",
    show_envvar=True,
    help="The app, as module:attribute; its store is used.",
)
store_option = click.option(
    "-s",
    "--store",
    "store",
    metavar="URL",
    envvar="MULLIGAN_STORE",
    show_envvar=True,
    help="The store's URL, such as sqlite:///jobs.db, instead of an app.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for other programs to read."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")

REACHED_AT_IMPORT = (
    "importing {} enqueues jobs, or reaches the store otherwise; every command and worker process"
    ' that imports it does so again: put such calls below if __name__ == "__main__":'
)


def about_a_store(command: Command) -> Command:
    """Give the command --app and --store."""
    return app_option(store_option(command))


def about_an_app_or_store(command: Command) -> Command:
    """Give the command an optional APP as its argument, --app and --store."""
    return click.argument("named", metavar="[APP]", required=False)(about_a_store(command))


def with_variables(command: click.Command) -> click.Command:
    """Give every option of the command a variable, MULLIGAN_ and the option's name."""
    for option in command.params:
        if isinstance(option, click.Option) and option.name is not None:
            option.envvar = f"MULLIGAN_{option.name.upper()}"
            option.show_envvar = True
    return command


def find_app(
    named: str | None, app: str | None, store: str | None, *, looks: bool = False
) -> Mulligan:
    """The app that was named, or one without tasks for the store that was named.

    The command line takes precedence over the environment. A command that only `looks` needs no
    tasks: where the app of the environment cannot be imported, it uses the store named there.
    """
    named_app(named, app)
    said = named or (app if given("app") else None)
    if said is not None and given("store"):
        raise InvalidError(f"app {said!r} has a store of its own; give APP or --store, not both")
    if said is None and given("store"):
        return bare_app(store or "")
    if looks and said is None and app and store:
        try:
            return load_app(app)
        except InvalidError as error:
            click.echo(printable(f"note: {error}; reading the store of MULLIGAN_STORE"), err=True)
            return bare_app(store)
    if said or app:
        return load_app(said or app or "")
    if store:
        return bare_app(store)
    raise InvalidError(
        "no store is named; give --app module:attribute or --store URL, or set MULLIGAN_APP or"
        " MULLIGAN_STORE"
    )


def named_app(named: str | None, app: str | None) -> str | None:
    """The app's name, as an argument or by --app; None if neither is given."""
    if named is not None and given("app"):
        raise InvalidError(f"app {named!r} is given and --app {app!r} too; give one of them")
    return named or app


def given(name: str) -> bool:
    """Whether the option was written on the command line."""
    context = click.get_current_context()
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def bare_app(url: str) -> Mulligan:
    """An app without tasks on the store."""
    check_url(url)
    return Mulligan(url)


def check_url(url: str) -> None:
    """Refuse a URL that names no store."""
    make_store(url)


def load_app(name: str) -> Mulligan:
    """Import `module:attribute`, with the current directory on the path."""
    module_name, colon, attribute = name.rpartition(":")
    if "://" in name:
        raise InvalidError(
            f"app {redact(name)!r} is a URL and not module:attribute; a store is named by --store"
        )
    if "/" in module_name or module_name.endswith(".py"):
        raise InvalidError(
            f"app {name!r} names a file; write its module, with dots and without .py, such as"
            f" {module_of_file(module_name)}:{attribute}"
        )
    if not colon or not module_name or not attribute:
        raise InvalidError(
            f"app {name!r} is not written module:attribute, such as {module_of_file(name)}:app"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = import_app(name, module_name)
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Mulligan):
        found.called = name
        if "access" in vars(found):  # made at the first call
            click.echo(f"note: {REACHED_AT_IMPORT.format(printable(module_name))}", err=True)
        return found
    apps = [key for key, value in vars(module).items() if isinstance(value, Mulligan)]
    there = f"its apps are: {', '.join(apps)}" if apps else "it has none"
    what = "there is none" if found is None else f"it is a {kind_of(found)}"
    raise InvalidError(
        f"app {name!r}: {attribute!r} in module {module_name} must be a Mulligan, and {what};"
        f" {there}"
    )


def kind_of(found: object) -> str:
    """What it is, in a word."""
    return "task" if isinstance(found, Task) else type(found).__name__


def module_of_file(path: str) -> str:
    """The module in a file, as an app is named; a guess at what was meant."""
    parts = path.strip(":").removesuffix(".py").replace("/", ".").strip(".")
    return parts or "shop"


def import_app(name: str, module_name: str) -> Any:
    """Import the module; what it raises is reported with its file and line."""
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidError(
                f"app {name!r}: there is no module {error.name!r} in {Path.cwd()} or on the Python"
                " path; run this from the folder that holds it"
            ) from error
        raise InvalidError(import_failure(name, error)) from error
    except (Exception, SystemExit) as error:
        raise InvalidError(import_failure(name, error)) from error


def import_failure(name: str, error: BaseException) -> str:
    """The message for what a module raised while it was imported, and where."""
    if isinstance(error, SyntaxError) and error.filename:
        what, file, line = error.msg, error.filename, error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        last = next((each for each in reversed(frames) if is_of_user(each.filename)), frames[-1])
        what, file, line = str(error), last.filename, last.lineno
    return f"app {name!r} cannot be imported: {type(error).__name__}: {what} (at {file}:{line})"


def is_of_user(file: str) -> bool:
    """Whether a file is neither of Python, nor of an installed package, nor of mulligan."""
    paths = sysconfig.get_paths()
    others = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    others.append(str(Path(__file__).parents[1]))
    return not file.startswith("<") and not any(map(Path(file).is_relative_to, others))


def with_store(
    app: Mulligan,
    work: Callable[[Store], Coroutine[Any, Any, T]],
    *,
    writes: bool = False,
    create: bool = False,
    tells_away: bool = True,
) -> T:
    """Open the app's store, do the work and close it.

    Without `writes` it is opened read-only. A missing store is created only with `create`, so that
    a typo does not create one. What is shown is without what shards have that are away: that is
    said on stderr, unless the work itself `tells_away`.
    """

    async def run() -> T:
        async with opened(app, writes=writes, create=create) as store:
            done = await work(store)
            if tells_away:
                tell_away(store)
            return done

    return asyncio.run(run())


def tell_away(store: Store) -> None:
    """Say on stderr which shards of the store are away."""
    absent = getattr(store, "absent", None)
    for sentence in () if absent is None else cast("HasShards", store).absent():
        click.echo(printable(sentence), err=True)


@asynccontextmanager
async def opened(
    app: Mulligan, *, writes: bool = False, create: bool = False
) -> AsyncIterator[Store]:
    """The app's store, opened, read-only unless `writes`; refused when it does not answer."""
    if not create:
        check_file(app.url)
    store = app.make_store()
    try:
        await open_in_time(store, redact(app.url), read_only=not (writes or create))
        yield store
    finally:
        await store.close()


async def open_in_time(store: Store, shown: str, *, read_only: bool = False) -> None:
    """Open the store, or raise why that failed."""
    try:
        async with asyncio.timeout(OPEN_WITHIN):
            await store.open(read_only=read_only)
    except ValueError as error:
        if isinstance(error, MulliganError):
            raise
        raise InvalidError(f"store {shown!r} cannot be opened: {error}") from error
    except (OSError, TimeoutError) as error:
        said = str(error) or f"it has not answered for {OPEN_WITHIN:g} s"
        raise StoreUnavailableError(
            f"store {shown} cannot be opened: {said}; check that it runs and that the URL is right"
        ) from error


def check_file(url: str) -> None:
    """Refuse a SQLite database that does not exist."""
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.scheme == "sqlite" and path not in ("", ":memory:") and not Path(path).exists():
        raise StoreUnavailableError(
            f"store {url}: there is no file {path}; check the path, or make the store with:"
            f" mulligan migrate --store {url}"
        )
