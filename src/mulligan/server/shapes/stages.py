"""A chain in answers."""

from typing import Any

from msgspec import Struct

from mulligan.core.job import Status


class StageJob(Struct, frozen=True):
    """A job of a stage, in short, with its arguments.

    Those of a job that gathers end with the results that have arrived, if there are at most 100.
    """

    id: str
    status: Status
    args: list[Any]
    kwargs: dict[str, Any]
    retry_count: int
    awaits: int
    last_failure_reason: str | None


class StageRow(Struct, frozen=True):
    """A stage and its stored jobs; of a fan-out, the first hundred of its `members`."""

    number: int
    name: str
    members: int
    jobs: list[StageJob]


class Stages(Struct, frozen=True):
    """Every stage of the chain that a job belongs to; none if it is in no chain."""

    stages: list[StageRow]
