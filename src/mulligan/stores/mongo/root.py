"""The root of the book: the number of its last change, its lanes, and the pages that it keeps.

Pages that changed lately are kept in the root itself, over those that are stored as documents: as
long as they are few, a change writes nothing else. When they are many they are written out.
"""

from collections.abc import Callable, Iterable
from typing import Any

import bson
from msgspec import Struct

from mulligan.stores.mongo.document import TO_READ, Doc

# What the root says besides its lanes and its own number.
NUMBERS = ("rounds", "limits", "later", "waiting", "alarms")
# So many pages are kept in the root, and so many bytes of them.
MOST_KEPT = 48
MOST_BYTES = 256 * 1024


class LaneFacts(Struct):
    """A lane in the root: how many lines it has, how many with a fairness key, and its turns.

    The keys of a round are forgotten together when the last line with a key is gone.
    """

    lines: int = 0
    keyed: int = 0
    present: int = 0
    round: int = 0


class Kept(Struct, frozen=True):
    """Pages over those that are stored: put, or gone; of the first it says which are not stored."""

    put: dict[str, Doc] = {}
    gone: set[str] = set()
    new: set[str] = set()

    def __contains__(self, key: str) -> bool:
        """Whether it says what becomes of the page."""
        return key in self.put or key in self.gone

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.put or self.gone)

    def over(self, stored: Iterable[Doc], wanted: Callable[[Doc], bool]) -> list[Doc]:
        """Stored pages as these make them: those that are wanted, and no others."""
        left = [doc for doc in stored if doc["_id"] not in self]
        return left + [doc for doc in self.put.values() if wanted(doc)]

    def encoded(self) -> bytes:
        """As the root has them."""
        put = list(self.put.values())
        return bson.encode({"put": put, "gone": sorted(self.gone), "new": sorted(self.new)})


NOTHING_KEPT = Kept()


def kept_from(text: bytes | None) -> Kept:
    """Pages as the root has them."""
    if text is None:
        return NOTHING_KEPT
    doc = bson.decode(text, TO_READ)
    return Kept({each["_id"]: each for each in doc["put"]}, set(doc["gone"]), set(doc["new"]))


class Root(Struct):
    """The root of the book: its number, its lanes, and how often a stored limit was changed.

    It counts the lines that are not due or wait, and alarms: where there are none, nobody looks.
    `written` is the number of the last change that wrote pages out.
    """

    version: int = 0
    lanes: dict[str, LaneFacts] = {}
    rounds: int = 0
    limits: int = 0
    later: int = 0
    waiting: int = 0
    alarms: int = 0
    written: int = 0
    kept: Kept = NOTHING_KEPT
    redo: bytes | None = None

    def copy(self) -> "Root":
        """The same, to be changed."""
        lanes = {n: LaneFacts(f.lines, f.keyed, f.present, f.round) for n, f in self.lanes.items()}
        counts = self.later, self.waiting, self.alarms
        return Root(self.version, lanes, self.rounds, self.limits, *counts, self.written, self.kept)

    @property
    def fields(self) -> Doc:
        """What its document says."""
        lanes = [
            {"name": n, "lines": f.lines, "keyed": f.keyed, "present": f.present, "round": f.round}
            for n, f in self.lanes.items()
        ]
        return {"lanes": lanes} | {name: getattr(self, name) for name in NUMBERS}

    def update(self) -> Doc:
        """The update by which its document says all that it does."""
        optional = {"kept": self.kept.encoded() if self.kept else None, "redo": self.redo}
        fields = self.fields | {"version": self.version, "written": self.written}
        update: Doc = {"$set": fields, "$unset": {}}
        for name, value in optional.items():
            update["$unset" if value is None else "$set"][name] = value or ""
        return {name: said for name, said in update.items() if said}


def root_from(doc: Doc | None) -> Root:
    """The root as it was read."""
    if doc is None:
        return Root()
    lanes = {
        each["name"]: LaneFacts(each["lines"], each["keyed"], each["present"], each["round"])
        for each in doc["lanes"]
    }
    numbers: dict[str, Any] = {name: doc[name] for name in (*NUMBERS, "written")}
    kept = kept_from(doc.get("kept"))
    return Root(doc["version"], lanes, kept=kept, redo=doc.get("redo"), **numbers)
