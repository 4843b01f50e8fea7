"""Commit: each outcome whose lease is still held is written, and each is answered."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from mulligan.core.job import TOKENS_PER_LIFE
from mulligan.core.outcome import Done, Outcome, Verdict
from mulligan.core.settings import check_batch
from mulligan.stores.rules import commit as rules
from mulligan.stores.sqlite.fields import as_json
from mulligan.stores.sqlite.lines import LineBook
from mulligan.stores.sqlite.rows import apply
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction, close, run_in_transaction

SQL = load("commit")
_DONE_IF_HELD = SQL["done_if_held"]
_HELD = SQL["held"]


def commit(tx: Transaction, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write the outcomes in order, and say what became of each."""
    check_batch(len(outcomes))
    if written_at_once(tx, outcomes):
        return ["written"] * len(outcomes)
    return apply(tx, rules.commit, outcomes)


def commit_within(tx: Transaction, outcome: Done, work: Callable[[Any], Any]) -> Verdict:
    """Write the outcome, and have the work done beside it if its lease was held till now."""
    [verdict] = commit(tx, [outcome])
    if verdict == "written":
        run_in_transaction(tx.db, work)
    return verdict


def written_at_once(tx: Transaction, outcomes: Sequence[Outcome]) -> bool:
    """The common case, in few statements: all done and held, and nothing to arrive."""
    dones = [o for o in outcomes if type(o) is Done and not o.next and o.use is None]
    try:
        leases = {o.lease.job: token_and_result(o.lease.token, o.result) for o in dones}
    except UnicodeDecodeError:  # no JSON, but kept as it is
        return False
    if len(leases) < len(outcomes):
        return False
    bound = (tx.now, tx.now, as_json(leases), TOKENS_PER_LIFE)
    try:
        ended = tx.db.execute(_DONE_IF_HELD, bound).rowcount
    except sqlite3.IntegrityError:
        return False
    if ended:
        numbers = [o.lease.token // TOKENS_PER_LIFE for o in dones]
        held = tx.db.execute(_HELD, (as_json(numbers),)).fetchall()
        close(tx, numbers)
        if held:
            LineBook(tx).end_many(held)
    return bool(ended)


def token_and_result(token: int, result: bytes | None) -> int | str:
    """Both in one value, which SQLite takes apart faster than an array."""
    return token if result is None else f"{token} {result.decode()}"
