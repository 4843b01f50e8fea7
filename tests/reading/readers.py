"""Users who may only read, where a store has users; where it has none, what is sent to it."""

import ctypes
import os
import pickle
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from tests.hostile import vandal

T = TypeVar("T")
NOBODY = 65534
# For prctl(2) and capset(2): CAP_DAC_READ_SEARCH, effective and permitted.
KEEP_CAPABILITIES = 8
CAPABILITY_VERSION = 0x20080522
READ_ANY_FILE = 1 << 2
# What a client of MongoDB may send that only reads.
READS = {
    *("find", "getMore", "count", "distinct", "listIndexes", "listCollections", "killCursors"),
    *("hello", "ismaster", "isMaster", "buildInfo", "ping", "endSessions"),
}
WRITING_STAGES = {"$out", "$merge"}


@contextmanager
def reader_of(url: str) -> Iterator[str]:
    """The URL with which somebody opens the store who may not write to it."""
    match urlsplit(url).scheme:
        case "redis":
            with redis_reader(url) as made:
                yield made
        case "postgresql":
            with postgres_reader(url) as made:
                yield made
        case "sqlite":
            with read_only_files(Path(unquote(urlsplit(url).path)[1:])):
                yield url
        case _:
            yield url


@contextmanager
def redis_reader(url: str) -> Iterator[str]:
    """A user who may run scripts and read these keys."""
    name, word = f"reader-{secrets.token_hex(4)}", secrets.token_hex(8)
    client, tag = vandal.redis(url)
    rights = ["+@read", "+@scripting", "+@connection", "+info", "+time", "-@write"]
    with client:
        client.execute_command("ACL", "SETUSER", name, "on", f">{word}", f"%R~{tag}*", *rights)
        try:
            parts = urlsplit(url)
            host = parts.netloc.rpartition("@")[2]
            yield parts._replace(netloc=f"{name}:{word}@{host}").geturl()
        finally:
            client.execute_command("ACL", "DELUSER", name)


@contextmanager
def postgres_reader(url: str) -> Iterator[str]:
    """A role that may read the tables and call the functions."""
    import psycopg  # noqa: PLC0415 - a driver is needed only where its server is
    from psycopg import sql  # noqa: PLC0415

    name, word = f"reader_{secrets.token_hex(4)}", secrets.token_hex(8)
    parts = urlsplit(url)
    schema = parts.query.rpartition("schema=")[2]
    role, place = sql.Identifier(name), sql.Identifier(schema)
    with psycopg.connect(parts._replace(query="").geturl(), autocommit=True) as connection:
        made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(word))
        connection.execute(made)
        try:
            for grant in (
                "GRANT USAGE ON SCHEMA {} TO {}",
                "GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}",
            ):
                connection.execute(sql.SQL(grant).format(place, role))
            host = parts.netloc.rpartition("@")[2]
            yield parts._replace(netloc=f"{name}:{word}@{host}").geturl()
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


@contextmanager
def read_only_files(path: Path) -> Iterator[None]:
    """A file, and a folder, that nobody may write to."""
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        yield
    finally:
        path.parent.chmod(0o755)
        path.chmod(0o644)


def become_nobody() -> None:
    """Be a user who may read every file, the project's own too, and write to none of root's."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    rights = (ctypes.c_uint32 * 6)(READ_ANY_FILE, READ_ANY_FILE, 0, 0, 0, 0)
    os.setgroups([])
    os.setgid(NOBODY)
    if libc.prctl(KEEP_CAPABILITIES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    os.setuid(NOBODY)
    if libc.capset(header, rights) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def without_rights(work: Callable[[], T]) -> T:
    """Do the work as a user to whom the modes of files apply: root may write to any."""
    if os.geteuid() != 0:
        return work()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer: Any = None
        try:
            become_nobody()
            answer = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            answer = AssertionError(repr(error))
        finally:
            with os.fdopen(writing, "wb") as out:
                out.write(pickle.dumps(answer))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as heard:
        answer = pickle.loads(heard.read())  # noqa: S301 - our own child wrote it
    os.waitpid(child, 0)
    if isinstance(answer, AssertionError):
        raise answer
    found: T = answer
    return found


class Wire:
    """What clients of MongoDB have sent since it was last asked that does not only read."""

    def __init__(self) -> None:
        self.listening = False
        self.sent: list[str] = []
        self.wrote: list[str] = []

    def started(self, event: Any) -> None:
        """A command goes out."""
        if not self.listening:
            return
        self.sent.append(event.command_name)
        stages = {stage for each in event.command.get("pipeline", ()) for stage in each}
        reads = event.command_name == "aggregate" and not stages & WRITING_STAGES
        if event.command_name not in READS and not reads:
            self.wrote.append(event.command_name)

    def succeeded(self, event: Any) -> None:
        """Its answer came."""

    def failed(self, event: Any) -> None:
        """It was refused."""


@contextmanager
def listening(wire: Wire) -> Iterator[Wire]:
    """Hear what is sent meanwhile."""
    wire.sent, wire.wrote, wire.listening = [], [], True
    try:
        yield wire
    finally:
        wire.listening = False
