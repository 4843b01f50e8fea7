"""A worker takes what it needs, however much waits and however long it works."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.databases import SERVERS, url_variable
from tests.failpoints.places import places
from tests.resources.backlog import fill, is_bounded, watched
from tests.resources.process_sample import Growth
from tests.resources.soak import has_flat_files, has_flat_memory, soak
from tests.store_kit import fresh_url, require

SECONDS = 20


@pytest.mark.parametrize("store", ["sqlite", "redis"])
async def test_memory_does_not_depend_on_how_many_jobs_wait(store, tmp_path):
    async with fresh_url(store, tmp_path) as url:
        fill(url, 20_000)
        growth = watched(url, 6)
    assert is_bounded(growth), growth


@pytest.fixture(scope="module")
def soaked(tmp_path_factory) -> Iterator[dict[str, tuple[Growth, int]]]:
    """A soak of every store that there is, side by side: each mostly waits."""
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        soaks = {}
        for store in available():
            made = stack.enter_context(places(store, tmp_path_factory.mktemp(store)))
            soaks[store] = threads.submit(soak, made.take(), SECONDS, 0.5)
        yield {store: each.result() for store, each in soaks.items()}


def available() -> list[str]:
    """The stores of this run."""
    return ["sqlite", *(store for store in SERVERS if os.environ.get(url_variable(store)))]


@pytest.mark.parametrize("store", ["sqlite", *SERVERS])
def test_a_worker_takes_no_more_memory_or_files_the_longer_it_works(store, soaked):
    require(store)
    growth, jobs = soaked[store]
    assert has_flat_memory(growth), growth
    assert has_flat_files(growth), growth
    assert jobs > 100
