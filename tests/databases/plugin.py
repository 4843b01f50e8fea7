"""A pytest plugin: the URLs of the test servers, and which stores a run has tested.

Load it in `tests/conftest.py`:

    pytest_plugins = ("tests.databases.plugin",)

`server_url("redis")` (or "postgres", "mongo") is the URL of the run's server, and skips the test if
there is none. The session fixtures `redis_url`, `postgres_url` and `mongo_url` are the same thing.
Servers are shared by all tests and test processes, so a test takes a name space of its own. Stores
that need no server are noted by `note("memory")`.

    @pytest.fixture(params=["memory", "sqlite", "redis", "postgres", "mongo"])
    def store_url(request, tmp_path):
        match request.param:
            case "memory":
                note("memory")
                return "memory://"
            case "sqlite":
                note("sqlite")
                return f"sqlite:///{tmp_path}/jobs.db"
            case name:
                return server_url(name)

The last lines of the run say of each store whether it was tested. `python -m tests.databases run`
names the stores that must be (MULLIGAN_TEST_STORES); with CI set, the run fails if one was not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.databases import unavailable_variable, url_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STORES = ("memory", "sqlite", "redis", "postgres", "mongo")
OUTPUT = "mulligan_stores"

# what this process, and on the controller every test process, has seen
_tested: set[str] = set()
_skipped: dict[str, str] = {}


def note(store: str) -> None:
    """Note that a test runs on a store."""
    _tested.add(store)


def server_url(store: str) -> str:
    """The URL of a store's server; skips the test, with the reason, if there is none."""
    if url := os.environ.get(url_variable(store)):
        note(store)
        return url
    reason = os.environ.get(unavailable_variable(store)) or (
        f"{url_variable(store)} is not set; `make test` and `python -m tests.databases run` set it"
    )
    _skipped[store] = reason
    pytest.skip(f"store {store}: {reason}")


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The URL of the run's Redis."""
    return server_url("redis")


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """The URL of the run's PostgreSQL."""
    return server_url("postgres")


@pytest.fixture(scope="session")
def mongo_url() -> str:
    """The URL of the run's MongoDB."""
    return server_url("mongo")


def untested() -> dict[str, str]:
    """Each store that the run should have tested and did not, and why."""
    required = os.environ.get("MULLIGAN_TEST_STORES")
    wanted: Iterable[str] = required.split(",") if required else _skipped
    return {
        store: _skipped.get(store, "no test of this run used it")
        for store in wanted
        if store not in _tested
    }


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(
        session.config, "workeroutput"
    ):  # a process of pytest-xdist reports to its controller
        session.config.workeroutput[OUTPUT] = (sorted(_tested), _skipped)
    elif os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK and untested():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    names, reasons = getattr(node, "workeroutput", {}).get(OUTPUT, ((), {}))
    _tested.update(names)
    _skipped.update(reasons)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield  # after everything else that is said at the end
    missing = untested()
    for store in STORES:
        if store in _tested:
            terminalreporter.write_line(f"store {store}: tested")
        elif store in missing:
            terminalreporter.write_line(f"store {store}: skipped: {missing[store]}", yellow=True)
    if missing and os.environ.get("CI"):
        terminalreporter.write_line("a store was not tested, which fails the run in CI", red=True)
