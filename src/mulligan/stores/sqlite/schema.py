"""The schema: tables that numbered steps make, and views that are made anew with each version.

A later release that changes a table adds a step: a file that brings the tables from one version to
the next. The version of a file is its `user_version`; 0 is a file without a store in it.
"""

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from mulligan.core.errors import StoreError

OLDEST_SQLITE = (3, 37, 0)
SCHEMA = files(__package__).joinpath("schema")
# Each brings a file to the next version; the first one from 0 to 1.
STEPS: tuple[str, ...] = ("tables.sql",)
# What holds nothing itself.
VIEWS = ("jobs.sql", "inbox.sql")


def check_library() -> None:
    """Refuse a SQLite that lacks what the statements need."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old: strict tables need"
            f" {'.'.join(map(str, OLDEST_SQLITE))} or newer; use a newer build of Python"
        )


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Apply the steps that are missing, all or none, while every other process waits its turn."""
    if not missing_steps(db, path):
        return
    db.execute("BEGIN EXCLUSIVE")
    try:
        if version_of(db) == 0:
            refuse_tables(db, path)
        for name in (*missing_steps(db, path), *VIEWS):
            apply(db, read(name))
        db.execute(f"PRAGMA user_version = {len(STEPS)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def refuse_tables(db: sqlite3.Connection, path: str) -> None:
    """Refuse a file in which another program has a table of a name that the store needs."""
    made = "".join(map(read, (STEPS[0], *VIEWS)))
    ours = set(re.findall(r"CREATE (?:TABLE|VIEW) (\w+)", made))
    theirs = {name.lower() for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    if taken := sorted(ours & theirs):
        raise StoreError(
            f"{path} has tables of another program with names that the store needs:"
            f" {', '.join(taken)}; rename them, or name another file"
        )


def missing_steps(db: sqlite3.Connection, path: str) -> tuple[str, ...]:
    """The steps that the file has not seen; a file of any other version is refused."""
    version = version_of(db)
    if not 0 <= version <= len(STEPS):
        raise StoreError(
            f"{path} has schema version {version}, but this release knows only {len(STEPS)};"
            " upgrade mulligan, or name another file"
        )
    return STEPS[version:]


def version_of(db: sqlite3.Connection) -> int:
    """The version of the schema that the file has now."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def read(name: str) -> str:
    """The text of a file of the schema."""
    return SCHEMA.joinpath(name).read_text("utf-8")


def apply(db: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script."""
    for statement in statements(script):
        db.execute(statement)


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one, so that they can share a transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
