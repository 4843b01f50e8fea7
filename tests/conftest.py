"""What every test may ask for: a clock that the test moves, and each store in turn."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mulligan.stores.contract import Store
from tests.stores import STORES, VirtualClock, fresh_url, handle

pytest_plugins = ("tests.servers.plugin", "tests.contract.steps")

# Tests that drive whole systems through faults. What they reach is covered elsewhere, and measuring
# it would double their time; so it is not measured, neither here nor in the processes they start.
UNMEASURED = {"benchmarks", "browser", "chaos", "collateral", "dst", "failpoints", "resources"}


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark what is not measured."""
    for item in items:
        if UNMEASURED & set(item.path.relative_to(Path(__file__).parent).parts):
            item.add_marker("no_cover")


@pytest.fixture(autouse=True)
def _unmeasured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("no_cover"):
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


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
