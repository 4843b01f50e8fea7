"""Trials: each mutant lives in a process of its own, before the tests that reach its function."""

import ast
import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Literal

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.mutants import Mutant

Verdict = Literal["killed", "hung", "survived", "unreached"]
Name = tuple[str, str]
# A mutant may loop for ever, or fill the memory while it does.
SECONDS_AT_LEAST, TIMES_AS_LONG = 20.0, 5.0
MEMORY = 4 * 1024**3


@dataclass
class Target:
    """A module: its file, its tree, those of its mutants that are tried, and its tests."""

    path: Path
    tree: ast.Module
    mutants: list[Mutant]
    tests: tuple[str, ...]


@dataclass(eq=False)
class Trials:
    """A pytest plugin that runs the tests once as they are, and then once for each mutant."""

    targets: list[Target]
    tell: Callable[[Target, Mutant, Verdict], None]
    broken: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    reached: dict[Name, list[pytest.Item]] = field(default_factory=dict)

    def pytest_configure(self) -> None:
        """Nothing is learnt from a smaller example, nor from what failed on another mutant."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - pytest wants to import it first

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", database=None, phases=phases)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of what pytest would do with the tests that it has collected."""
        self.survey(session.items)
        if self.broken:
            return True
        functions = functions_by_name()
        for target in self.targets:
            for mutant in target.mutants:
                name = (str(target.path), mutant.function)
                items = [
                    item
                    for item in self.reached.get(name, [])
                    if item.nodeid.startswith(target.tests)
                ]
                items.sort(key=lambda item: self.seconds[item.nodeid])
                verdict: Verdict = "unreached"
                if items:
                    verdict = self.trial(target, mutant, functions.get(name, []), items)
                self.tell(target, mutant, verdict)
        return True

    def survey(self, items: list[pytest.Item]) -> None:
        """Run every test on the code as it is, and note which functions it reaches."""
        paths = {str(target.path) for target in self.targets}
        for item in items:
            began = time.perf_counter()
            with noting_calls() as called:
                passed = passes(item)
            self.seconds[item.nodeid] = time.perf_counter() - began
            if not passed:
                self.broken.append(item.nodeid)
            for name in {name_of(code) for code in called if code.co_filename in paths}:
                self.reached.setdefault(name, []).append(item)

    def trial(
        self,
        target: Target,
        mutant: Mutant,
        functions: list[FunctionType],
        items: list[pytest.Item],
    ) -> Verdict:
        """Whether a test fails where the mutant stands in for the function."""
        limit = SECONDS_AT_LEAST + TIMES_AS_LONG * sum(self.seconds[i.nodeid] for i in items)
        child = os.fork()
        if child == 0:
            try:
                confine(limit)
                become(target, mutant, functions)
                os._exit(0 if all(map(passes, items)) else 1)
            except BaseException:  # noqa: BLE001 - whatever it is, it is this mutant's end
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return "hung"
        return "killed" if os.WEXITSTATUS(status) else "survived"


@contextmanager
def noting_calls() -> Iterator[set[CodeType]]:
    """The code of every function that is called meanwhile, in any thread that begins."""
    called: set[CodeType] = set()

    def note(frame: FrameType, *_: object) -> None:
        called.add(frame.f_code)

    threading.settrace(note)
    sys.settrace(note)
    try:
        yield called
    finally:
        sys.settrace(None)
        threading.settrace(None)


def passes(item: pytest.Item) -> bool:
    """Run one test, with its fixtures."""
    reports = runtestprotocol(item, log=False, nextitem=None)
    return not any(report.failed for report in reports)


def functions_by_name() -> dict[Name, list[FunctionType]]:
    """Every function there is, by its file and qualified name."""
    found: dict[Name, list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and "<locals>" not in each.__qualname__:
            found.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(
                each
            )
    return found


def name_of(code: CodeType) -> Name:
    """The file and qualified name of a function; one inside another goes by the outer one's."""
    return code.co_filename, code.co_qualname.split(".<locals>")[0]


def confine(seconds: float) -> None:
    """Let this process say nothing, and end by itself if it takes too long or too much."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def become(target: Target, mutant: Mutant, functions: list[FunctionType]) -> None:
    """Put the mutant's code into the function, wherever it has been imported to.

    What the function has answered before is forgotten: it would hide the mutant.
    """
    mutant.apply()
    code = code_of(compile(target.tree, str(target.path), "exec"), mutant.function)
    for function in functions:
        function.__code__ = code
    for each in gc.get_objects():
        if isinstance(each, _lru_cache_wrapper):
            each.cache_clear()


def code_of(module: CodeType, name: str) -> CodeType:
    """The code of a function in that of its module."""
    found = module
    for part in name.split("."):
        found = next(
            each for each in found.co_consts if isinstance(each, CodeType) and each.co_name == part
        )
    return found
