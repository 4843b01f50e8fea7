"""Reads fleet.toml; an error in it is refused with its line."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from mulligan.core.checks import check_name, check_region
from mulligan.core.errors import InvalidError
from mulligan.core.fetch import Only
from mulligan.core.runs import check_size
from mulligan.stores import make_store
from mulligan.supervisor.fleet import EVERY, ORPHAN_GRACE, SERVICE, Fleet, Kind
from mulligan.tables import Document, Table

TOP = ("name", "state", "every", "orphan_grace", "kinds")
LIFE = ("max_runtime", "memory_limit", "cooldown", "drain_timeout", "backoff", "backoff_max")
OF_SERVICE = ("service", "app", "command", "store", "max_concurrent", *LIFE, "env")
OF_WORKER = (
    "service", "app", "command", "store", "queues", "region", "concurrency", "only",
    "min", "max_concurrent", "max_wait", "idle_exit", *LIFE, "env",
)  # fmt: skip
OF_APP = ("region", "concurrency", "only", "queues")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class AppFacts(Struct, frozen=True):
    """What the supervisor must know about an app."""

    url: str
    queues: tuple[str, ...]
    concurrency: int


# From an app's name and environment variables to its facts.
Describe = Callable[[str, Mapping[str, str]], AppFacts]


def load_fleet(file: Path, describe: Describe) -> Fleet:
    """Read the file; `describe` says which queues and store each of its apps has."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidError(f"{file} cannot be read: {reason}") from error
    return read_fleet(file, text, describe)


def read_fleet(file: Path, text: str, describe: Describe) -> Fleet:
    """The fleet in the text of the file."""
    root = Document(str(file), text, "the fleet").root
    root.only(*TOP)
    tables = root.table("kinds")
    if not tables.names():
        tables.refuse_all("the fleet has no kind of worker; add [kinds.NAME]")
    name = root.text("name", file.stem)
    root.checked("name", lambda: check_name("name", name))
    return Fleet(
        name=name,
        file=file,
        state=(file.parent / root.text("state", f".mulligan/{file.stem}")).absolute(),
        kinds={kind: read_kind(tables, kind, describe) for kind in tables.names()},
        every=root.number("every", EVERY, above=True),
        orphan_grace=root.number("orphan_grace", ORPHAN_GRACE),
    )


def read_kind(tables: Table, name: str, describe: Describe) -> Kind:
    """One kind."""
    if not _NAME.fullmatch(name):
        tables.refuse(
            name, f"kind {name!r} must be 1 to 64 letters, digits, '_', '.' or '-': it names files"
        )
    table = tables.table(name)
    service = table.flag("service")
    check_keys(table, name, service=service)
    common = {
        "name": name,
        "service": service,
        "command": texts(table, "command"),
        "env": read_env(table),
        **read_life(table, SERVICE if service else Kind(name)),
    }
    if service:
        table.count("max_concurrent", 1, least=1, most=1)
        return Kind(**common, **read_service(table, common, describe))
    return Kind(**common, **read_numbers(table), **read_work(table, common, describe))


def check_keys(table: Table, name: str, *, service: bool) -> None:
    """Refuse keys that do not exist or that this kind cannot have."""
    table.only(*OF_WORKER)
    for key in table.names():
        if service and key not in OF_SERVICE:
            table.refuse(key, f"kind {name!r} is a service, of which one runs; take out {key}")
        if "command" in table and key in OF_APP and key != "queues":
            table.refuse(key, f"kind {name!r} has a command of its own; say {key} in it")
    if "command" in table and "app" in table:
        table.refuse("command", f"kind {name!r} has an app and a command; give one of them")
    if "command" in table and not table.items("command"):
        table.refuse("command", f'command of kind {name!r} is empty; write ["program", "argument"]')
    if "app" not in table and "command" not in table and not (service and "store" in table):
        table.refuse_all(f'kind {name!r} has no app; add app = "module:attribute", or a command')


def read_life(table: Table, default: Kind) -> dict[str, Any]:
    """The settings of a process's life: how long it may be, and how it ends and restarts."""
    backoff = table.number("backoff", default.backoff, least=0.001)
    return {
        "max_runtime": optional(table, "max_runtime", default.max_runtime),
        "memory_limit": read_size(table, "memory_limit"),
        "cooldown": table.number("cooldown", default.cooldown),
        "drain_timeout": table.number("drain_timeout", default.drain_timeout),
        "backoff": backoff,
        "backoff_max": table.number(
            "backoff_max", max(backoff, default.backoff_max), least=backoff
        ),
    }


def read_numbers(table: Table) -> dict[str, Any]:
    """How many processes there may be, and when their number changes."""
    default = Kind("")
    least = table.count("min", default.min, most=1000)
    most = table.count("max_concurrent", max(1, least), least=1, most=1000)
    if least > most:
        table.refuse("min", f"min {least} must not be more than max_concurrent {most}")
    return {
        "min": least,
        "max_concurrent": most,
        "max_wait": table.number("max_wait", default.max_wait, above=True),
        "idle_exit": table.number("idle_exit", default.idle_exit, above=True),
    }


def read_work(table: Table, common: Mapping[str, Any], describe: Describe) -> dict[str, Any]:
    """The app and options of its workers, and the store whose jobs are counted."""
    queues = texts(table, "queues")
    for queue in queues:
        table.checked("queues", lambda queue=queue: check_name("queue", queue))  # type: ignore[misc]
    concurrency = table.count("concurrency", None, least=1) if "concurrency" in table else None
    region = table.text("region", "default")
    table.checked("region", lambda: check_region(region, anywhere=False))
    only = table.text("only") if "only" in table else None
    if only not in (None, *get_args(Only)):
        table.refuse("only", f"only {only!r} is not one of {', '.join(get_args(Only))}")
    store = read_store(table)
    if common["command"]:
        if store and not queues:
            table.refuse("store", "a command whose store is looked at needs its queues; add queues")
        return {"store": store, "queues": queues, "serves": queues}
    app = table.text("app")
    facts = table.checked("app", lambda: describe(app, common["env"]))
    url = store or table.checked("app", lambda: shared_store(facts.url))
    return {
        "app": app, "store": url, "queues": queues, "serves": queues or facts.queues,
        "region": region, "concurrency": concurrency, "slots": concurrency or facts.concurrency,
        "only": only,
    }  # fmt: skip


def read_service(table: Table, common: Mapping[str, Any], describe: Describe) -> dict[str, Any]:
    """What a service runs."""
    store = read_store(table)
    if common["command"] or "app" not in table:
        return {"store": store}
    app = table.text("app")
    facts = table.checked("app", lambda: describe(app, common["env"]))
    return {"app": app, "store": store or table.checked("app", lambda: shared_store(facts.url))}


def read_store(table: Table) -> str:
    """The store's URL; "" if none is given."""
    if "store" not in table:
        return ""
    url = table.text("store")
    return table.checked("store", lambda: shared_store(url))


def shared_store(url: str) -> str:
    """The URL, unless it names a store that other processes cannot reach."""
    make_store(url)
    if url.startswith("memory:"):
        raise InvalidError("store memory:// is seen by one process alone; use sqlite:///FILE")
    return url


def read_env(table: Table) -> dict[str, str]:
    """Environment variables for the process; all must be text."""
    inner = table.table("env")
    return {name: inner.text(name) for name in inner.names()}


def texts(table: Table, name: str) -> tuple[str, ...]:
    """A list of texts; empty if the key is missing."""
    found = table.items(name)
    for each in found:
        if not isinstance(each, str):
            table.refuse(name, f"{name} {each!r} must be text")
    return tuple(found)


def optional(table: Table, name: str, default: float | None) -> float | None:
    """A number of seconds above 0; the default if the key is missing."""
    return table.number(name, above=True) if name in table else default


def read_size(table: Table, name: str) -> int | None:
    """Bytes: a whole number, or text such as "512 MiB"."""
    if name not in table:
        return None
    try:
        return check_size(name, table.value(name))
    except InvalidError as error:
        table.refuse(name, str(error))
