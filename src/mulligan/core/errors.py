"""The exceptions that mulligan raises, and those that decoding stored data may raise."""

from msgspec import MsgspecError

# Stored data may be no JSON, of another type, no UTF-8, or nested too deeply.
UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


class MulliganError(Exception):
    """The base of all of them."""


class InvalidError(MulliganError, ValueError):
    """A value breaks a rule; the message names the value, the rule and the remedy."""


class StoreError(MulliganError):
    """The store refused an operation or failed, and wrote nothing of it."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached now; trying again later may help."""


class UnknownJobError(MulliganError, LookupError):
    """No job of this id is stored."""


class JobFailedError(MulliganError):
    """The awaited job ended as failed; the message is its last failure."""


class JobCancelledError(MulliganError):
    """The awaited job was cancelled; the message is the reason."""


class ResultTimeoutError(MulliganError, TimeoutError):
    """The awaited job had not ended when the time was up."""
