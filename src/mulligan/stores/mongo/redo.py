"""What a change of the book does, as data: so that whoever comes next can do it."""

from typing import Any

import bson
from msgspec import Struct
from pymongo import DeleteOne, ReplaceOne, UpdateMany

from mulligan.stores.mongo.bulk_write import Change, Statement
from mulligan.stores.mongo.document import TO_READ, Doc


class Redo(Struct):
    """All that a change does: pages put and removed, jobs changed, and what these owe no more."""

    serial: int
    stamp: str
    put: list[Doc] = []
    gone: list[str] = []
    jobs: list[Change] = []
    settled: list[tuple[list[Any], list[str]]] = []

    def encoded(self) -> bytes:
        """As the root keeps it."""
        alike: dict[tuple[int, int, bool], list[Any]] = {}
        for each in self.jobs:
            kind = id(each.match), id(each.update), each.kept
            shared = alike.setdefault(kind, [each.match, each.update, each.kept, []])
            shared[-1].append([each.key, each.token, each.sequence])
        fields = {"stamp": self.stamp, "put": self.put, "gone": self.gone}
        fields["jobs"] = list(alike.values())
        return bson.encode(fields | {"settled": [list(each) for each in self.settled]})

    @property
    def writes_pages(self) -> bool:
        """Whether it writes pages out: then it must be finished before anyone reads them."""
        return bool(self.put or self.gone)

    def pages(self) -> list[Statement]:
        """The writes of pages."""
        before = {"$lt": self.serial}
        put = [
            ReplaceOne({"_id": doc["_id"], "serial": before}, {**doc, "serial": self.serial})
            for doc in self.put
        ]
        return [*put, *(DeleteOne({"_id": key, "serial": before}) for key in self.gone)]

    def debts(self) -> list[Statement]:
        """The writes by which jobs owe the book no more what it knows now."""
        return [
            UpdateMany(
                {"_id": {"$in": keys}}, {"$pull": {"mulligan.unbooked": {"id": {"$in": ids}}}}
            )
            for keys, ids in self.settled
        ]


def redo_from(serial: int, text: bytes) -> Redo:
    """What the root keeps."""
    doc = bson.decode(text, TO_READ)
    jobs = [
        Change(key, match, update, token, kept, sequence)
        for match, update, kept, each_one in doc["jobs"]
        for key, token, sequence in each_one
    ]
    settled = [(keys, ids) for keys, ids in doc["settled"]]
    return Redo(serial, doc["stamp"], doc["put"], doc["gone"], jobs, settled)
