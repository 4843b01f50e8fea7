"""A MongoDB wire-protocol front (OP_MSG) for the DocumentDB extension of PostgreSQL.

    python -m tests.databases.mongo.gateway DSN PORT

A test rig, not a database server for use: loopback only, no authentication, no transactions of
several documents, no change streams. Every document operation runs inside PostgreSQL, in the
extension's own functions, so atomicity and BSON semantics are the engine's, not this file's.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import bson
import psycopg
from bson.codec_options import CodecOptions
from bson.son import SON
from psycopg_pool import AsyncConnectionPool

Document = SON[str, Any]
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Pool = AsyncConnectionPool[Connection]

LOOPBACK = "127.0.0.1"
OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
CHECKSUM, MORE_TO_COME = 1, 2
HEAD = struct.Struct("<iiii")
ORDERED: CodecOptions[Document] = CodecOptions(document_class=SON)

# numbers that drivers know; the engine reports its own
DUPLICATE_KEY, CURSOR_NOT_FOUND, COMMAND_NOT_FOUND, FAILED = 11000, 43, 59, 8000

# command -> function of the extension, and the column that holds its reply
DOCUMENT = {
    "insert": ("insert", "p_result"),
    "update": ("update", "p_result"),
    "delete": ("delete", "p_result"),
    "findandmodify": ("find_and_modify", "p_result"),
    "count": ("count_query", "document"),
    "distinct": ("distinct_query", "document"),
}
CURSOR = {
    "find": "find",
    "aggregate": "aggregate",
    "listcollections": "list_collections",
    "listindexes": "list_indexes",
}
# command -> statement; a column that is not BSON is not a reply
CALL = {
    "collstats": "select bson_to_bytea(documentdb_api.coll_stats(%(database)s, %(target)s))",
    "create": "select documentdb_api.create_collection(%(database)s, %(target)s)",
    "createindexes": (
        "select bson_to_bytea(documentdb_api_internal.create_indexes_non_concurrently("
        "%(database)s, bson_from_bytea(%(spec)s), true))"
    ),
    "drop": "select documentdb_api.drop_collection(%(database)s, %(target)s)",
    "dropdatabase": "select documentdb_api.drop_database(%(database)s)",
    "dropindexes": "call documentdb_api.drop_indexes(%(database)s, bson_from_bytea(%(spec)s))",
    "listdatabases": (
        "select bson_to_bytea(documentdb_api.list_databases(bson_from_bytea(%(spec)s)))"
    ),
}
FIXED: dict[str, Document] = {
    "buildinfo": SON(version="7.0.0-documentdb", versionArray=[7, 0, 0, 0], ok=1.0),
    "endsessions": SON(ok=1.0),
    "ping": SON(ok=1.0),
}
FROM_BYTES = "bson_from_bytea(%s)"
# what a session sends along and the extension's functions do not take
ENVELOPE = {"lsid", "txnNumber", "writeConcern", "readConcern", "apiVersion"}


async def main(dsn: str, port: str) -> None:
    """Serve until killed."""
    pool = Pool(
        dsn,
        min_size=2,
        max_size=48,
        kwargs={"autocommit": True, "options": "-c search_path=documentdb_core"},
        open=False,
    )
    async with pool:
        server = await asyncio.start_server(Front(pool).serve, LOOPBACK, int(port))
        async with server:
            await server.serve_forever()


class CommandFailed(Exception):  # noqa: N818  # the wire's own word for it
    """A refusal of the front itself, with the number that drivers know it by."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a result goes on; some can only go on in the connection that they began in."""

    continuation: bytes
    connection: Connection | None


class Front:
    """Answers each client's commands, in order, by calls into the extension."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.cursors: dict[int, Cursor] = {}
        self.request_ids = itertools.count(1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client leaves."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size, request, _, operation = HEAD.unpack(await reader.readexactly(HEAD.size))
                body = await reader.readexactly(size - HEAD.size)
                if operation == OP_QUERY:  # the handshake of drivers that do not know us yet
                    flags, command = 0, decode(body[body.index(b"\0", 4) + 9 :])
                else:
                    flags, command = parse(body)
                document = bson.encode(await self.reply(command))
                if flags & MORE_TO_COME:
                    continue
                if operation == OP_QUERY:
                    kind, payload = OP_REPLY, struct.pack("<iqii", 8, 0, 0, 1) + document
                else:
                    kind, payload = OP_MSG, struct.pack("<Ib", 0, 0) + document
                head = HEAD.pack(HEAD.size + len(payload), next(self.request_ids), request, kind)
                writer.write(head + payload)
                await writer.drain()
        writer.close()

    async def reply(self, command: Document) -> Document:
        """The reply to a command; a failure is a reply too."""
        try:
            return await self.run(command)
        except CommandFailed as error:
            return SON(ok=0.0, errmsg=str(error), code=error.code)
        except psycopg.Error as error:
            return SON(ok=0.0, errmsg=str(error), code=error_code(str(error)))

    async def run(self, command: Document) -> Document:  # noqa: PLR0911  # one a kind of command
        """Carry out one command. Raises CommandFailed, or what PostgreSQL raised."""
        name = next(iter(command))
        database = str(command.get("$db", "admin"))
        match name.lower():
            case "hello" | "ismaster":
                return hello()
            case verb if verb in FIXED:
                return FIXED[verb]
            case verb if verb in DOCUMENT:
                return await self.document(verb, database, command)
            case verb if verb in CURSOR:
                return await self.first_page(verb, database, command)
            case "getmore":
                return await self.next_page(database, command)
            case "killcursors":
                return await self.kill_cursors(command["cursors"])
            case verb if verb in CALL:
                arguments = {"database": database, "target": command[name], "spec": encode(command)}
                return await self.call(CALL[verb], arguments)
            case _:
                raise CommandFailed(COMMAND_NOT_FOUND, f"no such command: {name}")

    async def document(self, verb: str, database: str, command: Document) -> Document:
        """Run a command that is answered by one document."""
        function, column = DOCUMENT[verb]
        query = f"select {to_bytes(column)} from documentdb_api.{function}(%s, {FROM_BYTES})"
        reply = decode((await self.row(query, database, encode(command)))[0])
        for failed in reply.get("writeErrors") or ():
            failed["code"] = error_code(failed["errmsg"])
        return reply

    async def first_page(self, verb: str, database: str, command: Document) -> Document:
        """Run a command that is answered page by page."""
        query = (
            f"select {to_bytes('cursorpage')}, {to_bytes('continuation')}, cursorid,"
            f" persistconnection"
            f" from documentdb_api.{CURSOR[verb]}_cursor_first_page(%s, {FROM_BYTES})"
        )
        connection = await self.pool.getconn()
        kept = False
        try:
            rows = await connection.execute(query, (database, encode(command)))
            page, continuation, cursor, kept = await rows.fetchone() or (b"", None, 0, False)
            kept = bool(kept and continuation)
            if continuation:
                self.cursors[cursor] = Cursor(continuation, connection if kept else None)
            return decode(page)
        finally:
            if not kept:
                await self.pool.putconn(connection)

    async def next_page(self, database: str, command: Document) -> Document:
        """Go on with a cursor; a finished one gives back its connection."""
        number = command["getMore"]
        cursor = self.cursors.pop(number, None)
        if cursor is None:
            raise CommandFailed(CURSOR_NOT_FOUND, f"cursor id {number} not found")
        query = (
            f"select {to_bytes('cursorpage')}, {to_bytes('continuation')}"
            f" from documentdb_api.cursor_get_more(%s, {FROM_BYTES}, {FROM_BYTES})"
        )
        arguments = (database, encode(command), cursor.continuation)
        connection = cursor.connection or await self.pool.getconn()
        kept = False
        try:
            rows = await connection.execute(query, arguments)
            page, continuation = await rows.fetchone() or (b"", None)
            if continuation:
                self.cursors[number] = Cursor(continuation, cursor.connection)
                kept = cursor.connection is not None
            return decode(page)
        finally:
            if not kept:
                await self.pool.putconn(connection)

    async def kill_cursors(self, numbers: list[int]) -> Document:
        """Forget cursors that a client has left before their end."""
        for number in numbers:
            cursor = self.cursors.pop(number, None)
            if cursor and cursor.connection:
                await cursor.connection.execute("close all")
                await self.pool.putconn(cursor.connection)
        return SON(cursorsKilled=numbers, ok=1.0)

    async def call(self, statement: str, arguments: dict[str, object]) -> Document:
        """Run a statement; its reply is the document that it returns, or else that all is well."""
        async with self.pool.connection() as connection:
            row = await (await connection.execute(statement, arguments)).fetchone()
        reply = row[0] if row else None
        return decode(reply) if isinstance(reply, bytes) else FIXED["ping"]

    async def row(self, query: str, *arguments: object) -> tuple[Any, ...]:
        """The one row that a function answers with."""
        async with self.pool.connection() as connection:
            rows = await connection.execute(query, arguments)
            return await rows.fetchone() or ()


def to_bytes(expression: str) -> str:
    return f"bson_to_bytea({expression})"


def hello() -> Document:
    """What drivers want to know first."""
    return SON(
        helloOk=True,
        ismaster=True,
        isWritablePrimary=True,
        maxBsonObjectSize=16 * 1024 * 1024,
        maxMessageSizeBytes=48_000_000,
        maxWriteBatchSize=25_000,
        localTime=datetime.now(UTC),
        minWireVersion=0,
        maxWireVersion=21,
        readOnly=False,
        ok=1.0,
    )


def error_code(message: str) -> int:
    duplicate = "uplicate key" in message or "conflicting key value" in message
    return DUPLICATE_KEY if duplicate else FAILED


def decode(document: bytes) -> Document:
    return bson.decode(document, ORDERED)


def encode(command: Document) -> bytes:
    """A command as the extension takes it."""
    kept = SON((k, v) for k, v in command.items() if k not in ENVELOPE and not k.startswith("$"))
    return bson.encode(kept)


def parse(body: bytes) -> tuple[int, Document]:
    """Split an OP_MSG body into its flags and its command, document sequences put in place."""
    (flags,) = struct.unpack_from("<I", body)
    command: Document = SON()
    sequences: dict[str, list[Document]] = {}
    at, end = 4, len(body) - (4 if flags & CHECKSUM else 0)
    while at < end:
        kind, at = body[at], at + 1
        (size,) = struct.unpack_from("<i", body, at)
        section = body[at : at + size]
        if kind == 0:
            command = decode(section)
        else:
            name, _, documents = section[4:].partition(b"\0")
            sequences[name.decode()] = bson.decode_all(documents, ORDERED)
        at += size
    command.update(sequences)
    return flags, command


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
