"""What errors of the server and of the driver mean, in our own words."""

import re

from redis import exceptions as driver

from mulligan.core.errors import MulliganError, StoreError, StoreUnavailableError
from mulligan.stores.redis.url import RedisUrl

# Before Redis 7 an error that ends a script stands at the end of a sentence about the script.
FROM_SCRIPT = re.compile(r"(?s)(?:ERR )?Error running script .*?: -([A-Z]+ .*)")

# What an answer means, by its first word.
NOT_NOW = ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MISCONF", "NOREPLICAS"]
WRONG_USER = ["NOAUTH", "WRONGPASS"]
# This node was the primary, or held the keys, and no longer is or does; nothing was done.
ELSEWHERE = ["READONLY", "MOVED"]
# A blocking read was ended for the same reason.
BROKEN_OFF = "UNBLOCKED"

REFUSED_USER = "refused the user or password; check the store's URL"
FULL = "is out of memory and took none of this batch; raise maxmemory, or let workers finish"
REPLICA = "is a replica that takes no writes"
LATE = "did not answer in time"


class AnswerError(Exception):
    """An error that the server answered, without what it says around one within a script.

    `code` is its first word, by which the server names the kind.
    """

    def __init__(self, said: str) -> None:
        found = FROM_SCRIPT.match(said)
        text = said if found is None else found[1]
        self.code = text.partition(" ")[0]
        super().__init__(text.removeprefix("ERR "))


def explain(error: Exception, url: RedisUrl) -> MulliganError:
    """The driver's or the server's error in our own words, which never hold a password."""
    if isinstance(error, AnswerError):
        make, sentence = meaning_of(error, url.tag)
        return make(f"{url.shown} {sentence}")
    if isinstance(error, driver.AuthenticationError):
        return StoreError(f"{url.shown} {REFUSED_USER}")
    if isinstance(error, driver.TimeoutError | TimeoutError):
        return StoreUnavailableError(f"{url.shown} {LATE}")
    if isinstance(error, driver.ConnectionError | OSError):
        return StoreUnavailableError(f"{url.shown} cannot be reached: {reason(error)}")
    return StoreError(f"{url.shown} refused: {error}")


def meaning_of(error: AnswerError, tag: str) -> tuple[type[StoreError], str]:
    """What the server said, in a sentence about it."""
    match error.code:
        case code if code in WRONG_USER:
            return StoreError, REFUSED_USER
        case "OOM":
            return StoreError, FULL
        case "MOVED" | "ASK":
            verb = "gave" if error.code == "MOVED" else "is giving"
            host, port = node_of(error)
            whom = f"the node at {host or 'its own host'}:{port}"
            return StoreUnavailableError, f"{verb} the cluster's slot of the keys {tag}:* to {whom}"
        case _ if is_elsewhere(error):
            return StoreUnavailableError, REPLICA
        case code if code in NOT_NOW:
            return StoreUnavailableError, f"cannot answer now: {error}"
    return StoreError, f"refused: {error}"


def is_elsewhere(error: AnswerError) -> bool:
    """Whether the server says that another server has the keys."""
    if error.code in ELSEWHERE or error.code == BROKEN_OFF:
        return True
    return str(error).startswith("WAIT cannot be used with replica")


def node_of(error: AnswerError) -> tuple[str, int]:
    """The host and port that a node of a cluster refers to; no host if it is that node's own."""
    host, _, port = str(error).split(" ")[2].rpartition(":")
    return host.strip("?"), int(port)


def reason(error: Exception) -> str:
    """The message of the system, without the driver's own words."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return type(error).__name__
