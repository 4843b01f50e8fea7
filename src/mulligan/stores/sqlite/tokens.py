"""Tokens that another program set to the last number there is: nothing comes after them."""

from mulligan.core.errors import StoreError
from mulligan.core.job import first_token
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("tokens")
_RENEW = SQL["renew"]
_RENEW_RUNNING = SQL["renew_running"]


def has_no_next(error: StoreError) -> bool:
    """Whether the operation failed because a token cannot be counted up."""
    return "cannot store REAL value in INTEGER column" in str(error) and ".token" in str(error)


def renew(tx: Transaction) -> None:
    """Give each such job a token above all that it has had, as if its life began now."""
    token = first_token(tx.reserve(1))
    tx.db.execute(_RENEW, (token,))
    tx.db.execute(_RENEW_RUNNING, (token,))
