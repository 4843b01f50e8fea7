"""Where the attempts of a task run, and what they may use: time before a warning, and memory."""

import re
from typing import Literal

from msgspec import Struct

from mulligan.core.errors import InvalidError

Pool = Literal["process"]
# Less than Python itself uses: whoever says less means another unit.
LEAST_MEMORY = 1 << 20
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", re.IGNORECASE)


class Runs(Struct, frozen=True):
    """What a task declares about its attempts; `max_memory` is in bytes."""

    pool: Pool | None = None
    soft_timeout: float | None = None
    max_memory: int | None = None

    def check(self, task: str, timeout: float | None, *, in_thread: bool) -> None:
        """Refuse what the task cannot have; `in_thread` says whether it is a plain function."""
        if self.max_memory is not None and self.pool is None:
            raise InvalidError(
                f"task {task!r} has max_memory, and only a process of its own can be measured;"
                ' add pool="process"'
            )
        if self.max_memory is not None and self.max_memory < LEAST_MEMORY:
            raise InvalidError(
                f"task {task!r} has max_memory {self.max_memory} bytes, which is less than Python"
                f' itself uses; give the unit too, such as "{self.max_memory}MB"'
            )
        if self.soft_timeout is None:
            return
        if in_thread and self.pool is None:
            raise InvalidError(
                f"task {task!r} has soft_timeout {self.soft_timeout:g}, and nothing can be raised"
                ' in a thread; make it a coroutine (async def), or add pool="process"'
            )
        self.check_timeout(task, timeout)

    def check_timeout(self, task: str, timeout: float | None) -> None:
        """Refuse a timeout that ends the attempt before its soft timeout."""
        soft = self.soft_timeout
        if soft is not None and timeout is not None and timeout <= soft:
            raise InvalidError(
                f"task {task!r}: soft_timeout {soft:g} must be shorter than timeout {timeout:g},"
                " which ends the attempt; lower soft_timeout or raise timeout"
            )


def check_pool(value: object) -> Pool | None:
    """The pool of that name; None for no pool."""
    if value is None:
        return None
    if value == "process":
        return "process"
    raise InvalidError(
        f'pool {value!r} is unknown; use "process", or leave it out: coroutines then run on the'
        " worker's loop, plain functions in its threads"
    )


def check_size(name: str, value: object) -> int:
    """Bytes: a whole number, or text such as "512 MiB"; a unit counts in steps of 1,024."""
    found = value
    if isinstance(found, str) and (match := _SIZE.fullmatch(found.strip())):
        found = int(float(match[1]) * SIZES[match[2].upper()])
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise InvalidError(f'{name} {value!r} must be a number of bytes, or text such as "512 MiB"')
    return found
