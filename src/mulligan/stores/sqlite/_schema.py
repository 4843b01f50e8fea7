"""The schema, brought up to date by numbered files, each applied once and whole."""

import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from mulligan.core.errors import StoreError

OLDEST_SQLITE = (3, 35, 0)


def check_library() -> None:
    """Refuse a SQLite that lacks what the statements need."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old: RETURNING needs"
            f" {'.'.join(map(str, OLDEST_SQLITE))} or newer; use a newer build of Python"
        )


def migrations() -> list[str]:
    """The text of each migration; the first brings a file from version 0 to version 1."""
    folder = files(__package__).joinpath("schema")
    found = sorted(
        (each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda f: f.name
    )
    return [each.read_text("utf-8") for each in found]


def migrate(db: sqlite3.Connection, path: str, upto: int | None = None) -> None:
    """Apply what is missing, all or nothing, while every other process waits its turn."""
    steps = migrations()[:upto]
    if not missing(db, steps, path):
        return
    db.execute("BEGIN EXCLUSIVE")
    try:
        for step in missing(db, steps, path):
            for statement in statements(step):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def missing(db: sqlite3.Connection, steps: list[str], path: str) -> list[str]:
    """The steps that the file has not seen; a file that has seen more than these is refused."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(steps):
        raise StoreError(
            f"{path} has schema version {version}, but this release knows only {len(steps)};"
            " upgrade mulligan"
        )
    return steps[version:]


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one, so that they can share a transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
