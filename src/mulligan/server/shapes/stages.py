"""A chain as it is answered."""

from msgspec import Struct

from mulligan.core.job import Status


class StageJob(Struct, frozen=True):
    """A job of a stage in a few words."""

    id: str
    status: Status
    retry_count: int
    awaits: int
    last_failure_reason: str | None


class StageRow(Struct, frozen=True):
    """A stage: its jobs that are stored, of a fan-out the first hundred of all its `members`."""

    number: int
    name: str
    members: int
    jobs: list[StageJob]


class Stages(Struct, frozen=True):
    """Every stage of the chain that a job belongs to; none if it stands alone."""

    stages: list[StageRow]
