"""Limits and fairness keys in requests and answers."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from mulligan.core.key_share import KeyShare
from mulligan.core.limits import LONGEST_PER, MOST_COST, MOST_RATE, LimitView
from mulligan.core.lines import LEAST_WEIGHT, MOST_WEIGHT

Per = Annotated[float, Meta(ge=0.001, le=LONGEST_PER)]
Rate = Annotated[int, Meta(ge=1, le=MOST_RATE)]


class LimitList(Struct, frozen=True):
    """The limits that are stored or in use, by name, and the store's time.

    `started` are the attempts that began in the last minute, by limit as it is declared.
    """

    limits: list[LimitView]
    now: float
    started: dict[str, int]


class SetLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to change of a limit; null takes it away, what is left out stays as it is."""

    concurrency: Annotated[int, Meta(ge=1, le=MOST_COST)] | UnsetType | None = UNSET
    rate: Rate | UnsetType | None = UNSET
    per: Per | UnsetType = UNSET
    burst: Rate | UnsetType | None = UNSET
    pause_on_retry_after: bool | UnsetType = UNSET


class PauseLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds nobody of the limit starts."""

    seconds: Per


class ResetLimit(Struct, frozen=True):
    """The limit as apps declare it; null if none does."""

    limit: LimitView | None


Weight = Annotated[float, Meta(ge=LEAST_WEIGHT, le=MOST_WEIGHT)]


class SetWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of fairness keys; those that are not named stay as they are."""

    weights: Annotated[dict[Annotated[str, Meta(min_length=1)], Weight], Meta(max_length=1000)]


class Weights(Struct, frozen=True):
    """The weights of a queue's fairness keys, where they are not 1."""

    queue: str
    weights: dict[str, float]


class QueueKeys(Struct, frozen=True):
    """The fairness keys of a queue that have work waiting, those with most work first."""

    queue: str
    keys: list[KeyShare]
