"""A fleet for each test that asks for one."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.supervisor import apps
from tests.supervisor.fleet import Fleet, fleet_in


@pytest.fixture
def fleet(tmp_path) -> Iterator[Fleet]:
    with fleet_in(tmp_path) as made:
        yield made


@pytest.fixture
def on_store(fleet) -> Callable[[Callable[[Store], Any]], Any]:
    """Do something with the store of the fleet."""

    def do(work: Callable[[Store], Any]) -> Any:
        async def main() -> Any:
            store = make_store(fleet.url)
            await store.open()
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(main())

    return do


@pytest.fixture
def enqueue(on_store) -> Callable[..., list[str]]:
    """Enqueue calls of a task of the tests' app; the ids of the jobs."""

    def send(task: str, *arguments: object, times: int = 1) -> list[str]:
        jobs = [apps.app.tasks[task].call(*arguments).job for _ in range(times)]
        return [each.id for each in on_store(lambda store: store.enqueue(jobs))]

    return send
