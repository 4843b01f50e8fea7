"""What every test may ask for: a clock that the test moves, and each store in turn."""

import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings

from mulligan.stores.contract import Store
from tests.stores import STORES, VirtualClock, fresh_url, handle

pytest_plugins = ("tests.servers.plugin", "tests.contract.steps")

# How long an example takes says how busy the machine is.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

TESTS = Path(__file__).parent
# Tests that drive whole systems, for long or through faults. What they reach is covered elsewhere,
# and measuring it would double their time; so it is not measured, neither here nor in the processes
# that they start.
UNMEASURED = (
    *("benchmarks/", "browser/", "chaos/", "collateral/", "dst/", "examples/", "failpoints/"),
    *("lessons/", "mutation/", "resources/", "typing/", "app/test_periodic.py"),
    *("contract/test_against_memory.py", "engine/test_refused_never_passes.py"),
    *("engine/test_sessions_over_days.py", "security/test_canary.py", "sim/test_docs.py"),
    "server/test_whatever_is_allowed.py",
)

# pymongo leaves a connection that was being made to the collector when its maker is cancelled.
LEFT_TO_THE_COLLECTOR = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def pytest_configure() -> None:
    """Let Ctrl-C mean to the processes under test what it means at a terminal.

    A shell has what it starts in the background ignore it, and so would theirs.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Let a driver's habit not fail the tests of its store."""
    for item in items:
        if "mongo" in item.name:
            item.add_marker(LEFT_TO_THE_COLLECTOR)


@pytest.fixture(autouse=True)
def _unmeasured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    measuring = Coverage.current()
    named = str(request.path.relative_to(TESTS)).startswith(UNMEASURED)
    if measuring is None or not (named or request.node.get_closest_marker("unmeasured")):
        yield
        return
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    measuring.stop()
    yield
    measuring.start()


@pytest.fixture
def clock() -> VirtualClock:
    """The time in the store; it passes only when the test says so."""
    return VirtualClock()


@pytest.fixture(params=STORES)
async def store_url(request, tmp_path) -> AsyncIterator[str]:
    """The URL of an empty store, of each engine in turn."""
    async with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
async def store(store_url, clock) -> AsyncIterator[Store]:
    """An open, empty store, of each engine in turn, on the virtual clock."""
    async with handle(store_url, clock) as opened:
        yield opened


@pytest.fixture
async def another(store, store_url, clock) -> AsyncIterator[Store]:
    """A second handle on the data of `store`, as another process has it."""
    if store_url.startswith("memory:"):
        yield store
        return
    async with handle(store_url, clock) as opened:
        yield opened
