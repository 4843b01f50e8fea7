"""The schema, brought up to date by numbered files, each applied once and whole."""

import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from mulligan.core.errors import StoreError

OLDEST_SQLITE = (3, 37, 0)
SCHEMA = files(__package__).joinpath("schema")
# What holds nothing itself is made anew with each version.
VIEWS = ("jobs.sql", "inbox.sql")


def check_library() -> None:
    """Refuse a SQLite that lacks what the statements need."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old: strict tables need"
            f" {'.'.join(map(str, OLDEST_SQLITE))} or newer; use a newer build of Python"
        )


def migrations() -> list[str]:
    """The text of each migration; the first brings a file from version 0 to version 1."""
    numbered = [each for each in SCHEMA.iterdir() if each.name[0].isdigit()]
    return [each.read_text("utf-8") for each in sorted(numbered, key=lambda file: file.name)]


def migrate(db: sqlite3.Connection, path: str, upto: int | None = None) -> None:
    """Apply what is missing, all or nothing, while every other process waits its turn."""
    steps = migrations()[:upto]
    if not missing(db, steps, path):
        return
    db.execute("BEGIN EXCLUSIVE")
    try:
        for step in missing(db, steps, path):
            apply(db, step)
        if upto is None:
            for name in VIEWS:
                apply(db, SCHEMA.joinpath(name).read_text("utf-8"))
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def missing(db: sqlite3.Connection, steps: list[str], path: str) -> list[str]:
    """The steps that the file has not seen; a file that has seen more than these is refused."""
    version = version_of(db)
    if version > len(steps):
        raise StoreError(
            f"{path} has schema version {version}, but this release knows only {len(steps)};"
            " upgrade mulligan"
        )
    return steps[version:]


def version_of(db: sqlite3.Connection) -> int:
    """The version of the schema that the file has now."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


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
