"""The tables: uploads, with a row for each announcement, and records, which allows any number."""

import sqlite3
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Statement(NamedTuple):
    """One statement in the words of both engines, which differ in their placeholders alone."""

    sqlite: str

    @property
    def postgres(self) -> bytes:
        """With the placeholders of psycopg."""
        return self.sqlite.replace("?", "%s").encode()


DROP = (
    Statement("DROP TABLE IF EXISTS announcement_uploads"),
    Statement("DROP TABLE IF EXISTS announcement_records"),
)
CREATE = (
    Statement("CREATE TABLE announcement_uploads (id INTEGER PRIMARY KEY, category TEXT)"),
    Statement(
        "CREATE TABLE announcement_records (id INTEGER, category TEXT, advice TEXT, key TEXT)"
    ),
)
UPLOAD = Statement("INSERT INTO announcement_uploads VALUES (?, ?) ON CONFLICT (id) DO NOTHING")
RECORD = Statement("INSERT INTO announcement_records VALUES (?, ?, ?, ?)")
UPLOADED = Statement("SELECT id, category FROM announcement_uploads")
RECORDED = Statement("SELECT id, category FROM announcement_records")


class Database:
    """The user's own tables, beside the store's."""

    def __init__(self, store: str) -> None:
        self._store = store

    def create(self) -> None:
        """Make the tables anew, empty."""
        self.drop()
        for statement in CREATE:
            self._run(statement)

    def drop(self) -> None:
        """Remove the tables."""
        for statement in DROP:
            self._run(statement)

    def upload(self, number: int, category: str) -> None:
        """Write the row, if it is not there."""
        self._run(UPLOAD, number, category)

    def uploads(self) -> list[tuple[int, str]]:
        """Every row of the one table."""
        return self._run(UPLOADED)

    def records(self) -> list[tuple[int, str]]:
        """Every row of the other."""
        return self._run(RECORDED)

    def _run(self, statement: Statement, *values: object) -> list[Any]:
        if self._store.startswith("sqlite"):
            path = self._store.removeprefix("sqlite:///")
            connection = sqlite3.connect(path, timeout=30)
            try:
                with connection:
                    return connection.execute(statement.sqlite, values).fetchall()
            finally:
                connection.close()
        import psycopg  # noqa: PLC0415 - who stays with SQLite needs no driver

        with psycopg.connect(urlsplit(self._store)._replace(query="").geturl()) as server:
            cursor = server.execute(statement.postgres, values)
            return cursor.fetchall() if cursor.description else []
