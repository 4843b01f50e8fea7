"""Handles, calls, tasks and apps hold a connection, which another process does not have."""

from typing import Any, NoReturn

from mulligan.core.errors import InvalidError

REMEDIES = {
    "Mulligan": "import the app's module there",
    "JobHandle": "pass job.id, and look the job up there: app.job(id)",
    "ChainHandle": "pass its id",
    "GatherHandle": "pass its id",
    "Prepared": "enqueue it here, or pass the arguments and call the task there",
}


def refuse_pickling(self: Any) -> NoReturn:
    """Refuse to pickle an object, as its `__reduce__`; the remedy depends on its class."""
    remedy = REMEDIES.get(type(self).__name__, "import the task from its module there")
    raise InvalidError(
        f"{self!r} cannot be pickled: it holds the app's connection to the store; {remedy}"
    )
