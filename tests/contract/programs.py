"""Programs of commands, and the shortest part of one that two stores answer differently."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.contract.choices import Command, program
from tests.contract.comparison import Comparison

LENGTH = 80
Numbers = tuple[int, ...]


class Program(NamedTuple):
    """Of the commands drawn from a seed those with these numbers."""

    seed: int
    kept: Numbers = tuple(range(LENGTH))

    def commands(self) -> list[Command]:
        """What is done, in order."""
        drawn = program(Random(self.seed), max(self.kept, default=-1) + 1)
        return [drawn[number] for number in self.kept]

    def __str__(self) -> str:
        return f"{self.seed}:{','.join(map(str, self.kept))}"


class Difference(NamedTuple):
    """A program that a store answers otherwise than memory does, and how."""

    store: str
    program: Program
    error: Exception
    again: bool = True

    def __str__(self) -> str:
        if not self.again:
            return f"{self.store} differed from memory once, and not again: {self.error!r}"
        commands = [f"  {command}" for command in self.program.commands()]
        repeat = f"make explore STORES={self.store} ARGS='--program {self.program}'"
        said = str(self.error) or type(self.error).__name__
        return "\n".join([f"{self.store} differs from memory: {said}", *commands, "", repeat])


def parsed(text: str) -> Program:
    """The program that the text names: SEED, or SEED:NUMBER,NUMBER,..."""
    seed, _, numbers = text.partition(":")
    program = Program(int(seed))
    return Program(program.seed, tuple(map(int, numbers.split(",")))) if numbers else program


def compare(store: str, given: Program, folder: Path) -> Difference | None:
    """Run a program on an empty store and on memory; the shortest that differs, if it does.

    One that differs once and not again, as when a server was starved, is not made shorter.
    """
    error = run(store, given, folder)
    if error is None:
        return None
    errors = {given.kept: error}

    def differs(kept: Numbers) -> bool:
        found = run(store, Program(given.seed, kept), folder, counted=False)
        if found is not None:
            errors[kept] = found
        return found is not None

    if not differs(given.kept):
        return Difference(store, given, error, again=False)
    kept = shortest(given.kept, differs)
    return Difference(store, Program(given.seed, kept), errors[kept])


def run(store: str, given: Program, folder: Path, *, counted: bool = True) -> Exception | None:
    """Run a program as it is; what was wrong. Its commands count once, however it is shortened."""
    try:
        Comparison(store, folder, counted=counted).run(given.commands())
    except Exception as error:  # noqa: BLE001 - whatever a store raises is a difference
        return error
    return None


def shortest(numbers: Numbers, fails: Callable[[Numbers], bool]) -> Numbers:
    """Leave out what can be left out while it still fails: first the last, and many at a time."""
    size = len(numbers)
    while size:
        size //= 2
        end = len(numbers)
        while size and end > 0:
            fewer = numbers[: max(0, end - size)] + numbers[end:]
            if fails(fewer):
                numbers = fewer
            end -= size
    return numbers
