"""The limits that apps declared and operators set."""

from msgspec import json

from mulligan.core.limits import Limit, StoredLimit, covering
from mulligan.stores.mongo.document import Doc

decode_limit = json.Decoder(Limit).decode

# Of how many names is remembered which limit covers them.
COVERING_KEPT = 10_000


def stored_key(name: str) -> str:
    """The key of the page of a stored limit."""
    return f"limit\x1f{name}"


def is_stored_limit(key: str) -> bool:
    """Whether that page is one."""
    return key.startswith(stored_key(""))


class StoredLimits:
    """The limits that apps declared and operators set, and which of them covers a name."""

    def __init__(self, changed: int, limits: dict[str, StoredLimit]) -> None:
        self.changed = changed
        self.limits = limits
        self._in_force = [n for n, each in limits.items() if each.in_force is not None]
        self._covering: dict[str, str | None] = {}

    def limit_of(self, name: str) -> Limit | None:
        """What holds for the name."""
        if name not in self._covering:
            if len(self._covering) > COVERING_KEPT:
                self._covering.clear()
            self._covering[name] = covering(name, self._in_force)
        by = self._covering[name]
        return None if by is None else self.limits[by].in_force


def stored_from(doc: Doc) -> StoredLimit:
    """A limit as it is stored."""
    declared, by_operator = (
        None if text is None else decode_limit(text) for text in (doc["declared"], doc["set"])
    )
    return StoredLimit(declared, by_operator)
