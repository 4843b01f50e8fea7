"""Several writes in one command, some of which may lose a race.

A deadlock or a write conflict undoes a statement as a whole, so it is sent again. A write that
another process outdated matches nothing: the stamp that each write leaves says which took place.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from bson import encode
from msgspec import Struct
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

from mulligan.core.job import TOKENS_PER_LIFE
from mulligan.stores.mongo.document import Doc

Statement = InsertOne[Any] | UpdateOne | UpdateMany | ReplaceOne[Any] | DeleteOne | DeleteMany

P = ParamSpec("P")
T = TypeVar("T")

DUPLICATE, WRITE_CONFLICT = 11000, 112
# The label of errors after which a server allows the same command to be sent again.
TRANSIENT = "TransientTransactionError"
# A server that stands on PostgreSQL passes on its message, under a number of its own.
DEADLOCK = "deadlock detected"
TRIES = 20
PAUSE = 0.01
# Inserts of one unique key wait for each other, for those too that come back meanwhile: after a
# deadlock of inserts the pause is up to so many times as long, until one of them has got through.
INSERTS_APART = 50
# Nobody claims a job so often between a read and the write that follows it.
APART = TOKENS_PER_LIFE // 4
TOKEN, SEQUENCE = "mulligan.token", "mulligan.sequence"
# So many writes may follow one whose stamp is kept before it is forgotten.
KEPT_STAMPS = 8


class Written(Struct):
    """How many documents a write met, and which of its statements broke a unique index."""

    documents: int
    refused: set[int]


async def write(collection: AsyncCollection[Any], statements: Sequence[Statement]) -> Written:
    """Carry out every statement, in any order, those that collided again.

    Raises what else a statement failed with, once the others have been carried out.
    """
    written = Written(0, set())
    left = list(range(len(statements)))
    for tries in range(1, TRIES + 1):
        try:
            reply = await collection.bulk_write([statements[at] for at in left], ordered=False)
            return add(written, reply.bulk_api_result)
        except BulkWriteError as error:
            failed = {left[each["index"]]: each for each in error.details["writeErrors"]}
            collided = [at for at, each in failed.items() if has_collided(each)]
            refused = {at for at, each in failed.items() if each["code"] == DUPLICATE}
            known = len(collided) + len(refused) == len(failed)
            if not known or error.details["writeConcernErrors"] or (collided and tries == TRIES):
                raise
            add(written, error.details).refused |= refused
            if not collided:
                return written
            left, apart = collided, 1.0
            if insert_deadlock(statements, failed):
                apart = INSERTS_APART * random.random()
        except OperationFailure as error:
            if not has_collided(error.details or {}) or tries == TRIES:
                raise
            apart = 1.0
        await asyncio.sleep(apart * pause(tries))
    return written


def insert_deadlock(
    statements: Sequence[Statement], failed: Mapping[int, Mapping[str, Any]]
) -> bool:
    """Whether an insert failed since it and others waited for each other."""
    return any(
        isinstance(statements[at], InsertOne) and DEADLOCK in each.get("errmsg", "")
        for at, each in failed.items()
    )


def pause(tries: int) -> float:
    """How long to wait after so many tries; at random, so that rivals do not collide again."""
    return PAUSE * tries * (0.5 + random.random())


def add(written: Written, reply: Mapping[str, Any]) -> Written:
    """Count the documents that a command met."""
    written.documents += sum(reply[n] for n in ("nInserted", "nUpserted", "nMatched", "nRemoved"))
    return written


def has_collided(error: Mapping[str, Any]) -> bool:
    """Whether the statement was undone because others wrote the same documents."""
    return (
        error.get("code") == WRITE_CONFLICT
        or DEADLOCK in error.get("errmsg", "")
        or TRANSIENT in error.get("errorLabels", ())
    )


class RetryingCollection(AsyncCollection[Doc]):
    """A collection whose statements about one document are sent again where they collided."""

    def with_options(self, *args: Any, **options: Any) -> Any:
        """As the driver has it, and retrying as well."""
        made = super().with_options(*args, **options)
        return RetryingCollection(
            made.database,
            made.name,
            codec_options=made.codec_options,
            read_preference=made.read_preference,
            write_concern=made.write_concern,
            read_concern=made.read_concern,
        )

    async def insert_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().insert_one, *args, **options)

    async def update_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().update_one, *args, **options)

    async def replace_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().replace_one, *args, **options)

    async def delete_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().delete_one, *args, **options)

    async def find_one_and_update(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().find_one_and_update, *args, **options)

    async def find_one_and_delete(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().find_one_and_delete, *args, **options)


async def repeated(command: Callable[P, Awaitable[T]], /, *args: P.args, **options: P.kwargs) -> T:
    """What the command gives, sent again while it collides."""
    for tries in range(1, TRIES):
        try:
            return await command(*args, **options)
        except OperationFailure as error:
            if not has_collided(error.details or {}):
                raise
        await asyncio.sleep(pause(tries))
    return await command(*args, **options)


class Change(Struct):
    """One fenced write: it happens only if the document still matches, and has the token.

    The next write replaces its stamp, unless it is `kept`: after a write that leaves the job for
    others to claim, they may be quicker than the look at what was written. With a `sequence` it
    happens only while the job stands in its line by that: no two jobs have one in common either.
    """

    key: Any
    match: Doc
    update: Doc
    token: int | None = None
    kept: bool = False
    sequence: int | None = None

    @property
    def query(self) -> Doc:
        """The document, if it is still as it was."""
        fences = {TOKEN: self.token, SEQUENCE: self.sequence}
        fence = {name: value for name, value in fences.items() if value is not None}
        return {"_id": self.key, **self.match, **fence}


def statements(changes: Sequence[Change], stamp: str) -> list[UpdateOne | UpdateMany]:
    """The changes as updates, in the order of their keys, so that two such writes rarely collide.

    Those that are alike but for key, token and sequence become one.
    """
    alike: dict[tuple[bytes, bool, bool], list[Change]] = {}
    forms: dict[tuple[int, int], bytes] = {}  # changes that share their parts are encoded once
    for change in sorted(changes, key=lambda each: str(each.key)):
        parts = id(change.match), id(change.update)
        if parts not in forms:
            put_stamp(change, stamp)
            forms[parts] = encode({"m": change.match, "u": change.update})
        kind = forms[parts], change.token is None, change.sequence is None
        alike.setdefault(kind, []).append(change)
    groups = [part for group in alike.values() for part in split_by_token(group)]
    return [statement(group) for group in sorted(groups, key=lambda each: str(each[0].key))]


def put_stamp(change: Change, stamp: str) -> None:
    """Have the update leave the stamp: beside the kept ones, or instead of the last."""
    fields = change.update.setdefault("$set", {})
    if "mulligan" in fields:
        fields["mulligan"]["stamp"] = stamp
    elif change.kept:
        last = {"$each": [stamp], "$slice": -KEPT_STAMPS}
        change.update.setdefault("$push", {})["mulligan.stamps"] = last
    else:
        fields["mulligan.stamp"] = stamp


def split_by_token(changes: list[Change]) -> list[list[Change]]:
    """The changes in groups in which no document can come to have the token of another.

    Each job has thousands of tokens to itself, so this is nearly always one group. A document
    that another program copied may have a token close to that of another: it is written alone.
    """
    tokens = sorted(change.token for change in changes if change.token is not None)
    close = {token for pair in pairwise(tokens) if pair[1] - pair[0] < APART for token in pair}
    together = [change for change in changes if change.token not in close]
    alone = [[change] for change in changes if change.token in close]
    return [together, *alone] if together else alone


def statement(group: list[Change]) -> UpdateOne | UpdateMany:
    """One update for changes that are alike: of documents among these, with tokens among these."""
    first = group[0]
    if len(group) == 1:
        return UpdateOne(first.query, first.update)
    query: Doc = {"_id": {"$in": [change.key for change in group]}, **first.match}
    if first.token is not None:
        query[TOKEN] = {"$in": [change.token for change in group]}
    if first.sequence is not None:
        query[SEQUENCE] = {"$in": [change.sequence for change in group]}
    return UpdateMany(query, first.update)


def new_stamp(now: int = 0) -> str:
    """A unique name for one write, with the time at which it was made where that matters."""
    return f"{now:x}.{secrets.token_hex(8)}"


def stamped_at(stamp: str) -> int:
    """When a stamp was made, in microseconds."""
    return int(stamp.partition(".")[0], 16)
