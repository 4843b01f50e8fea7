"""What a sqlite:// URL may say."""

from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from mulligan.core.errors import InvalidError
from mulligan.stores import redact

Durability = Literal["full", "normal"]
MEMORY = ":memory:"
FORMS = "sqlite:///relative.db, sqlite:////absolute/path.db or sqlite:// for memory"


class SqliteUrl(Struct, frozen=True):
    """Which file, and whether an answer waits for the disk."""

    path: str
    durability: Durability = "full"

    @property
    def is_synced(self) -> bool:
        """Whether what is written is on the disk before it is answered."""
        return self.durability == "full" and not self.in_memory

    @property
    def in_memory(self) -> bool:
        """Whether it lives and ends with this process."""
        return self.path == MEMORY


def parse(url: str) -> SqliteUrl:
    """Read the URL; a relative path is taken from the working directory of this moment."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or parts.fragment:
        raise InvalidError(f"store {redact(url)!r} is not a SQLite URL; write {FORMS}")
    durability: Durability = "full"
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name != "durability":
            raise InvalidError(
                f"option {name!r} of {redact(url)!r} is unknown; there is only durability="
            )
        if value not in ("full", "normal"):
            raise InvalidError(
                f"durability {value!r} of {redact(url)!r} is not one of full, normal"
            )
        durability = "full" if value == "full" else "normal"
    path = unquote(parts.path).removeprefix("/")
    if path in ("", MEMORY):
        return SqliteUrl(MEMORY, durability)
    return SqliteUrl(str(Path(path).absolute()), durability)
