"""Random documents as other programs may leave them, in every state; the same for the same seed."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.code import Code

from mulligan.core.job import NewJob, encode
from mulligan.stores.mongo.document import micros
from mulligan.stores.mongo.fields import new_document

STATUSES = ("pending", "processing", "done", "failed", "cancelled")
PUBLIC = ("payload", "created_at", "updated_at", "attempts", "next_retry_at", "backoff_policy")
NUMBERS = (0, 1, -1, 7, 2**31, Int64(2**62), -(2**62), 0.5, 1e300, -0.0)
ODD_NUMBERS = (float("nan"), float("inf"), float("-inf"), Decimal128("1E+6000"), Decimal128("NaN"))
TEXTS = ("", "x", "default", "pending", "$where", "a.b", "\x1b[31m", "é" * 200, "\ufffd", "*")
# Private fields that most jobs do without, as mulligan writes them.
RARER = {
    "limits": '{"k":1}',
    "fairness_key": "f",
    "unique_key": "u",
    "unique_queue": "default",
    "expires_at": 1,
    "gather": "all",
    "gather_index": 0,
    "owes": "arrival",
    "awaits": 2,
    "arrived": 1,
    "lane": "awaiting",
    "held": True,
    "delayed": True,
    "permit_stamp": "1.x",
    "permits": ["key:k"],
    "stamps": ["1.x"],
    "outbox": {"stamp": "1.x", "jobs": []},
    "trail": "{}",
    "updated_at": None,
    "cancel_reason": "no",
}
OTHERS = (
    *(None, True, False, ObjectId(b"a" * 12), Binary(b"\xff\x00"), b"", Regex("a"), Code("x")),
    *(MinKey(), MaxKey(), Timestamp(1, 2)),
)


class Stranger:
    """Draws values and documents."""

    def __init__(self, seed: int, now: float) -> None:
        self.draw = random.Random(seed)
        self.now = datetime.fromtimestamp(now, UTC)
        self._number = 0

    def date(self) -> datetime:
        """One near now, or far from it."""
        if self.draw.random() < 0.7:
            return self.now + timedelta(seconds=self.draw.uniform(-2000, 2000))
        return datetime(self.draw.choice((1, 1970, 2000, 9998)), 5, 6, tzinfo=UTC)

    def value(self, depth: int = 0) -> Any:
        """Anything that a document may hold."""
        kind = self.draw.randrange(12 if depth < 3 else 8)
        if kind < 8:
            return self.draw.choice((NUMBERS, ODD_NUMBERS, TEXTS, OTHERS, (self.date(),))[kind % 5])
        if kind < 10:
            return [self.value(depth + 1) for _ in range(self.draw.randrange(4))]
        names = ("a", "task", "args", "kwargs", "json", "message", "number", "body")
        chosen = self.draw.sample(names, self.draw.randrange(5))
        return {name: self.value(depth + 1) for name in chosen}

    def key(self) -> Any:
        """What a document may be called."""
        self._number += 1
        return self.draw.choice(
            (
                f"doc-{self._number}",
                f"doc-{self._number}",
                ObjectId(self._number.to_bytes(12, "big")),
                self._number,
                {"a": self._number},
                f"\x1b[{self._number}",
                f"a/b?c#{self._number}",
                Int64(2**40 + self._number),
            )
        )

    def plain(self) -> dict[str, Any]:
        """A document that is nearly right."""
        made: dict[str, Any] = {"_id": self.key(), "status": self.draw.choice(STATUSES)}
        right = {
            "payload": {"task": "ask", "args": [1]},
            "created_at": self.date(),
            "updated_at": self.date(),
            "attempts": self.draw.randrange(3),
            "next_retry_at": self.draw.choice((None, self.date())),
            "backoff_policy": {"base_sec": 1, "jitter": "none"},
            "error": {"message": "boom", "code": 5},
            "max_retries": 2,
        }
        return made | {name: each for name, each in right.items() if self.draw.random() < 0.8}

    def spoilt(self) -> dict[str, Any]:
        """One with some things in it that have no place there."""
        made = self.plain()
        for name in self.draw.sample((*PUBLIC, "error", "max_retries"), self.draw.randrange(4)):
            made[name] = self.value()
        if self.draw.random() < 0.3:
            made["payload"] = {"task": "ask", "json": self.draw.choice(("oops", "[" * 9999, "{}"))}
        if self.draw.random() < 0.3:
            made["backoff_policy"] = {
                name: self.value() for name in ("base_sec", "factor", "max_sec", "jitter")
            }
        if self.draw.random() < 0.2:
            made["mulligan"] = self.value()
        if self.draw.random() < 0.1:
            made["status"] = self.value()
        return made

    def damaged(self) -> dict[str, Any]:
        """One that mulligan has written, and others after it."""
        body = encode({"task": "ask", "args": [1], "kwargs": {}})
        new = NewJob(f"ours-{self._number}", "default", "ask", body)
        made = new_document(new, micros(self.now.timestamp()), 1000 + self._number)
        made["_id"] = self.key()
        made["mulligan"]["token"] += self._number * 100_000
        made["status"] = self.draw.choice(STATUSES)
        private = made["mulligan"]
        private |= {"worker": self.draw.choice((None, "gone")), "history": [], "result": b"1"}
        private |= dict.fromkeys(("started_at", "ended_at"), private["due"])
        private["last_retry_at"] = None
        for name in self.draw.sample(sorted(RARER), self.draw.randrange(4)):
            private[name] = RARER[name]
        for name in self.draw.sample(sorted(private), self.draw.randrange(4)):
            private[name] = self.value()
        for name in self.draw.sample(PUBLIC, self.draw.randrange(2)):
            made[name] = self.value()
        return made

    def documents(self, count: int) -> Iterator[dict[str, Any]]:
        """So many of all kinds."""
        for _ in range(count):
            yield self.draw.choice((self.plain, self.spoilt, self.damaged))()
