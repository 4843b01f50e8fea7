"""A retry policy as other programs write it: fields that no policy has are refused.

Policies that are stored with jobs are read without this check: a newer release may have written
them, with fields that this one does not know.
"""

from typing import Any

import msgspec

from mulligan.core import retry
from mulligan.core.errors import InvalidError
from mulligan.core.nearest import misfit


class Exponential(  # noqa: D101 - it has that of the class above
    retry.Exponential, frozen=True, tag="exponential", forbid_unknown_fields=True
):
    __doc__ = retry.Exponential.__doc__


class Adaptive(retry.Adaptive, frozen=True, tag="adaptive", forbid_unknown_fields=True):  # noqa: D101 - it has that of the class above
    __doc__ = retry.Adaptive.__doc__


class Delays(retry.Delays, frozen=True, tag="delays", forbid_unknown_fields=True):  # noqa: D101 - it has that of the class above
    __doc__ = retry.Delays.__doc__


class Sessions(retry.Sessions, frozen=True, tag="sessions", forbid_unknown_fields=True):  # noqa: D101 - it has that of the class above
    __doc__ = retry.Sessions.__doc__


class Retry(retry.Retry, frozen=True, forbid_unknown_fields=True):  # noqa: D101 - it has that of the class above
    __doc__ = retry.Retry.__doc__

    backoff: Exponential | Adaptive | Delays | Sessions = Exponential()


KINDS = (Retry, Exponential, Adaptive, Delays, Sessions)


def misfit_of_call(error: msgspec.ValidationError, *kinds: Any) -> str:
    """Return why data with a policy in it does not fit these types, with the nearest field."""
    return misfit(error, *(KINDS if "`$.retry" in str(error) else kinds))


def read_retry(said: object) -> Retry:
    """Return the policy that a value of JSON or BSON is; refuses a value that is not one."""
    try:
        return msgspec.convert(said, Retry)
    except msgspec.ValidationError as error:
        raise InvalidError(f"retry is no policy: {misfit(error, *KINDS)}") from error
