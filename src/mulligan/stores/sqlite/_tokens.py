"""Tokens that another program set to the last number there is: nothing comes after them."""

from mulligan.core.errors import StoreError
from mulligan.core.job import first_token
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._transaction import Transaction

_OF_JOBS = load("token_renew")
_OF_RUNNING = load("token_renew_running")


def has_no_next(error: StoreError) -> bool:
    """Whether the operation failed because a token cannot be counted up."""
    return "cannot store REAL value in INTEGER column" in str(error) and ".token" in str(error)


def renew(tx: Transaction) -> None:
    """Give each such job a token above all that it has had, as if its life began now."""
    token = first_token(tx.reserve(1))
    tx.db.execute(_OF_JOBS, (token,))
    tx.db.execute(_OF_RUNNING, (token,))
