"""Notes: small values that are kept for a while, found by how their keys begin."""

from itertools import takewhile

from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._transaction import Transaction

_KEEP = load("note_keep")
_FORGET = load("note_forget")
_LIST = load("note_list")


def note(tx: Transaction, key: str, value: bytes | None, keep: float) -> None:
    """Keep the value, or forget the one that was kept."""
    if value is None:
        tx.db.execute(_FORGET, (key,))
    else:
        tx.db.execute(_KEEP, (key, value, tx.now + keep))


def notes(tx: Transaction, prefix: str) -> dict[str, bytes]:
    """The values whose keys begin so: in order of key they stand together, from the prefix on."""
    found = tx.db.execute(_LIST, (prefix, tx.now))
    return dict(takewhile(lambda row: row[0].startswith(prefix), found))
