"""A pytest plugin: how many commands each store has been compared with the memory store by."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

OUTPUT = "mulligan_steps"

# what this process, and on the controller every test process, has counted
_steps: Counter[str] = Counter()


def step(store: str) -> None:
    """Count one command that both stores answered alike."""
    _steps[store] += 1


def compared(store: str) -> int:
    """How many commands the store and memory have both answered."""
    return _steps[store]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist has a controller
        session.config.workeroutput[OUTPUT] = dict(_steps)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    _steps.update(getattr(node, "workeroutput", {}).get(OUTPUT, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for store, count in sorted(_steps.items()):
        terminalreporter.write_line(f"{store} against memory: {count} commands answered alike")
