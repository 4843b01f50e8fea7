"""Looking changes nothing: every reading command and route, on every store, by a mere reader."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from functools import cache
from pathlib import Path

import pytest

from mulligan import Mulligan
from mulligan.core.errors import StoreError
from mulligan.core.lane import Lane
from mulligan.core.page import Selection
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.reading import apps
from tests.reading.dumps import changes, dump
from tests.reading.every_reading import (
    SCHEDULE,
    UNENDED,
    application,
    command,
    get,
    reading_commands,
    reading_routes,
)
from tests.reading.readers import Wire, listening, reader_of, without_rights
from tests.reading.scene import add_strangers, furnish
from tests.store_kit import STORES, fresh_url

SERVED = [name for name in STORES if name != "memory"]


@cache
def wire() -> Wire:
    """The one that hears every client of this process: a driver forgets no listener."""
    import pymongo.monitoring  # noqa: PLC0415 - a driver is needed only where its server is

    heard = Wire()
    listener = type("Listener", (Wire, pymongo.monitoring.CommandListener), {})
    made = listener()
    made.__dict__ = heard.__dict__
    pymongo.monitoring.register(made)
    return heard


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may look into."""
    made = Path(tempfile.mkdtemp(prefix="mulligan-reading-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=STORES)
async def scene(request, folder, monkeypatch) -> AsyncIterator[str]:
    """The URL of a furnished store of each engine in turn, closed; that in memory is the app's."""
    async with fresh_url(request.param, folder) as url:
        if request.param == "mongo":
            wire()
        store = make_store(url)
        await store.open()
        await furnish(store)
        await asyncio.to_thread(add_strangers, url)
        if request.param == "memory":
            monkeypatch.setattr(apps.app, "_memory", store)
        else:
            await store.close()
        yield url


async def status_of(store: Store) -> str | None:
    """How one of the jobs is."""
    found = await store.get(UNENDED)
    return None if found is None else found.status


def data(url: str) -> dict[str, object]:
    """All that is kept there."""
    return dump(url, apps.app.make_store() if url.startswith("memory:") else None)


def heard(url: str):
    """Hears what is sent, where that is all that tells reading from writing."""
    return listening(wire()) if url.startswith("mongodb:") else nullcontext(Wire())


def as_reader(url: str, work):
    """Do the work as a user who may only read."""
    with reader_of(url) as reader, heard(url) as sent:
        found = without_rights(lambda: work(reader)) if "sqlite" in url else work(reader)
    assert sent.wrote == []
    assert bool(sent.sent) == url.startswith("mongodb:")
    return found


def ask(words: tuple[str, ...], reader: str) -> tuple[int, str]:
    """The exit code and the output of a command, which must end in order."""
    result = command("tests.reading.apps:app" if "memory" in reader else reader, *words)
    assert isinstance(result.exception, SystemExit | None), (words, repr(result.exception))
    return result.exit_code, result.output


def test_no_reading_command_writes(scene):
    before = data(scene)
    every = list(reading_commands())
    assert len(every) > 20
    for words in every:
        code, output = as_reader(scene, lambda reader, words=words: ask(words, reader))
        assert (words, changes(before, data(scene))) == (words, [])
        assert "error: " not in output
        assert output
        # The doctor finds that some jobs have no worker; that is what it is for.
        assert code == 0 or words[0] == "doctor", (words, output)


def test_no_get_route_writes(scene):
    before = data(scene)

    async def serve(reader: str) -> dict[str, int]:
        async with reading(reader) as store:
            asked = application(store, apps.app if "memory" in reader else Mulligan(reader))
            return {path: (await get(asked, path))[0] for path in reading_routes()}

    answers = as_reader(scene, lambda reader: asyncio.run(serve(reader)))
    assert changes(before, data(scene)) == []
    assert len(answers) > 20
    assert set(answers.values()) == {200}, answers


def test_no_reading_operation_writes(scene):
    """Those too that no command and no route has need of."""
    before = data(scene)

    async def look(reader: str) -> None:
        async with reading(reader) as store:
            await store.facts()
            await store.counts()
            await store.notes("")
            assert list(await store.schedules()) == [SCHEDULE]
            await store.stats()
            for job in [each.id for each in (await store.page(Selection(), 1000)).jobs]:
                await store.get(job)
                await store.history(job)
                await store.arrivals(job)
            await store.statuses([UNENDED, "nobody"])
            await store.ahead(UNENDED)
            for lane in (Lane("default", "*", 0), Lane("never", "used", 1)):
                await store.depth(lane, 10)
                await store.tail(lane, 1e10)

    as_reader(scene, lambda reader: asyncio.run(look(reader)))
    assert changes(before, data(scene)) == []


async def test_no_reading_command_drops_a_lock_of_its_process(folder):
    """As when a web application looks at the file that its own worker has open."""
    url = f"sqlite:///{folder}/jobs.db"
    async with opened(url) as store:
        await furnish(store)
        before = data(url)
        assert before["locks"] != []
        for words in reading_commands():
            await asyncio.to_thread(ask, words, url)
            assert (words, changes(before, data(url))) == (words, [])


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """An open store, on the clock of the system."""
    store = make_store(url)
    await store.open()
    yield store
    await store.close()


class reading:  # noqa: N801 - it is used as a function
    """A store that is opened to be read."""

    def __init__(self, url: str) -> None:
        self._memory = url.startswith("memory:")
        self._store = apps.app.make_store() if self._memory else make_store(url)

    async def __aenter__(self) -> Store:
        await self._store.open(read_only=True)
        return self._store

    async def __aexit__(self, *_: object) -> None:
        if not self._memory:
            await self._store.close()


def test_what_writes_is_seen_and_refused_to_a_reader(scene):
    """Or else the tests above would show nothing."""
    before = data(scene)
    with reader_of(scene) as reader, heard(scene) as sent:

        def pause() -> tuple[int, str]:
            return ask(("pause", "mail"), reader)

        code, output = without_rights(pause) if "sqlite" in scene else pause()
    engine = scene.partition(":")[0]
    if engine in ("memory", "mongodb"):  # they have no users here
        assert code == 0
        assert bool(sent.wrote) == (engine == "mongodb")
    else:
        assert (code, changes(before, data(scene))) == (1, []), output
        ask(("pause", "mail"), scene)
    assert changes(before, data(scene)) != []


@pytest.mark.parametrize("name", SERVED)
async def test_opening_a_place_to_read_makes_nothing_there(name, folder):
    async with fresh_url(name, folder) as url:
        before = sorted(folder.iterdir())
        store = make_store(url)
        if name in ("sqlite", "postgres"):
            with pytest.raises(StoreError, match="mulligan migrate"):
                await store.open(read_only=True)
        else:
            await store.open(read_only=True)
            assert (await store.page(Selection(), 10)).jobs == []
            assert (await store.stats()).lanes == []
            assert (await store.facts()).queues == {}
        await store.close()
        assert sorted(folder.iterdir()) == before
        if name != "sqlite":
            assert not any(rows for rows in dump(url).values())


async def test_a_file_that_others_write_to_is_read_as_it_is_at_each_moment(folder):
    url = f"sqlite:///{folder}/jobs.db"
    writer, reader = make_store(url), make_store(url)
    await writer.open()
    await writer.close()
    await reader.open(read_only=True)
    assert sorted(each.name for each in folder.iterdir()) == ["jobs.db"]
    await writer.open()
    await furnish(writer)
    assert await status_of(reader) == "processing"
    await writer.cancel([UNENDED], "enough")
    assert await status_of(reader) == "cancelled"
    await writer.close()
    assert await status_of(reader) == "cancelled"
    assert sorted(each.name for each in folder.iterdir()) == ["jobs.db"]
    with pytest.raises(StoreError, match="opened to be read"):
        await reader.pause("mail", paused=True)
    await reader.close()
