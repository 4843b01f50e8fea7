"""New jobs by column: what they have in common is seen at once, and what not is sent together."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import astuple

from mulligan.core.job import NewJob

T = TypeVar("T")
Column = tuple[T, ...]


class Columns(NamedTuple):
    """A column for each field of NewJob, in its order; none is empty."""

    id: Column[str]
    queue: Column[str]
    task: Column[str]
    body: Column[bytes]
    region: Column[str]
    priority: Column[int]
    delay: Column[float]
    unique_key: Column[str | None]
    concurrency_key: Column[str | None]
    concurrency_limit: Column[int]
    expires: Column[float | None]
    unique_in: Column[str | None]
    awaits: Column[int]
    gather: Column[str | None]
    place: Column[int]

    @property
    def are_plain(self) -> bool:
        """Whether no job says more than what it runs, where and when."""
        return all(map(only, self[PLAIN:], DEFAULTS[PLAIN:]))

    @property
    def are_alike(self) -> bool:
        """Whether the jobs differ in id and body alone."""
        _, queue, task, _, *rest = self
        return all(only(column, column[0]) for column in (queue, task, *rest))


PLAIN = Columns._fields.index("unique_key")
DEFAULTS = astuple(NewJob("", "", "", b""))


def columns_of(jobs: Sequence[NewJob]) -> Columns:
    """The jobs, of which there is at least one, by column."""
    return Columns(*zip(*map(astuple, jobs), strict=True))


def only(column: Sequence[T], value: T) -> bool:
    """Whether there is no other value in the column."""
    return column.count(value) == len(column)
