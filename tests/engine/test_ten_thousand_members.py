"""A gather of as many members as there may be, on every store: run, counted, and not slow."""

import pytest

from mulligan import Failure, Mulligan, Progress, Retry, Settings
from mulligan.core.flow import MOST_MEMBERS
from mulligan.stores.contract import Store
from tests.engine.test_on_every_store import working

pytestmark = [pytest.mark.prove, pytest.mark.timeout(120)]
FAILED = 100


@pytest.fixture
def app(store_url):
    made = Mulligan(store_url, settings=Settings(concurrency=200))
    yield made
    made.close()


async def test_ten_thousand_members_arrive_and_are_counted_without_reading_them(app, monkeypatch):
    @app.task(retry=Retry(0))
    async def number(value: int) -> int:
        if value % (MOST_MEMBERS // FAILED) == 0:
            raise ValueError("round")
        return value

    @app.task
    async def summary(values: list[int | Failure]) -> tuple[int, int]:
        numbers = [each for each in values if not isinstance(each, Failure)]
        assert numbers == sorted(numbers)
        return len(numbers), len(values) - len(numbers)

    calls = [number.call(value) for value in range(MOST_MEMBERS)]
    async with working(app):
        whole = await app.agather(calls, summary, return_exceptions=True)
        assert await whole.aresult(timeout=100) == (MOST_MEMBERS - FAILED, FAILED)
    read: list[str] = []
    store = await app.access.acall(itself)
    get = type(store).get

    async def noted(self, job):
        read.append(job)
        return await get(self, job)

    monkeypatch.setattr(type(store), "get", noted)
    assert await whole.aprogress() == Progress(MOST_MEMBERS, MOST_MEMBERS - FAILED, FAILED, 0)
    assert read == [f"{whole.id}.2"]
    assert len(await whole.afailures()) == FAILED
    assert set(read) == {f"{whole.id}.2"}


async def itself(store: Store) -> Store:
    """The store that the app has opened."""
    return store
