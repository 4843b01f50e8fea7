"""Live changes: one look for all, a snapshot first, then what is new."""

import asyncio
import json

import pytest

from mulligan.server import events
from mulligan.server.events import BEHIND, COMMENT, LISTENERS, Hub, difference
from mulligan.server.problems import Refusal


class World:
    """A store that the test changes; it counts how often it is looked at."""

    def __init__(self):
        self.now = 0.0
        self.regions = {"US": 1}
        self.looks = 0
        self.seen = asyncio.Event()

    async def look(self):
        self.looks += 1
        self.now += 1.0
        self.seen.set()
        return {"regions": dict(self.regions), "now": self.now}


def read(event):
    name, data, *_ = event.decode().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.fixture
async def world():
    return World()


async def listen(hub):
    listener = hub.join()
    stream = hub.stream(listener)
    return listener, stream, read(await anext(stream))


async def test_a_listener_gets_a_snapshot_and_then_what_changes(world):
    hub = Hub(world.look, every=0.001)
    listener, stream, first = await listen(hub)
    assert first == ("snapshot", {"regions": {"US": 1}, "now": 1.0})
    world.regions = {"US": 1, "EU": 2}
    name, change = read(await anext(stream))
    assert (name, change["regions"]) == ("change", {"EU": 2})
    hub.leave(listener)


async def test_all_listeners_share_one_look(world):
    hub = Hub(world.look, every=3600)
    joined = await asyncio.gather(*(listen(hub) for _ in range(10)))
    assert world.looks == 1
    for listener, _, _ in joined:
        hub.leave(listener)


async def test_nobody_looks_when_nobody_listens(world):
    hub = Hub(world.look, every=0.001)
    listener, _, _ = await listen(hub)
    hub.leave(listener)
    assert hub._looking is None


async def test_one_listener_too_many_is_refused(world):
    hub = Hub(world.look)
    for _ in range(LISTENERS):
        hub.join()
    with pytest.raises(Refusal, match="100 listen already"):
        hub.join()


async def test_a_slow_listener_gets_a_new_snapshot(world):
    hub = Hub(world.look, every=0.0)
    listener, stream, _ = await listen(hub)
    for number in range(BEHIND + 2):
        world.regions["US"] = -number
        world.seen.clear()
        await world.seen.wait()
    while listener.full() or listener.empty():
        world.regions["US"] += 100
        await asyncio.sleep(0)
    name, _ = read(await anext(stream))
    assert name == "snapshot"
    hub.leave(listener)


async def test_a_silent_stream_is_kept_open_by_comments(world, monkeypatch):
    monkeypatch.setattr(events, "COMMENT_EVERY", 0.001)
    hub = Hub(world.look, every=3600)
    listener, stream, _ = await listen(hub)
    assert await anext(stream) == COMMENT
    hub.leave(listener)


async def test_a_store_that_is_away_is_looked_at_again(world):
    hub = Hub(world.look, every=0.001)
    listener, stream, _ = await listen(hub)
    look = world.look

    async def away():
        hub._look = look
        world.regions = {}
        raise OSError("away")

    hub._look = away
    assert read(await anext(stream))[1]["regions"] == {"US": None}
    hub.leave(listener)


async def test_a_defect_does_not_end_the_news(world, caplog):
    hub = Hub(world.look, every=0.001)
    listener, stream, _ = await listen(hub)
    look = world.look

    async def broken():
        hub._look = look
        world.regions = {}
        raise KeyError("a defect")

    hub._look = broken
    assert read(await anext(stream))[1]["regions"] == {"US": None}
    assert "a defect" in caplog.text
    hub.leave(listener)


async def test_stopping_ends_every_stream(world):
    hub = Hub(world.look, every=3600)
    _, stream, _ = await listen(hub)
    hub.stop()
    assert [event async for event in stream] == []


def test_a_difference_has_changed_entries_and_null_for_those_that_are_gone():
    before = {"regions": {"US": 1, "EU": 2}, "workers": [1], "now": 1.0, "same": 3}
    after = {"regions": {"US": 1, "ASIA": 4}, "workers": [1, 2], "now": 2.0, "same": 3}
    assert difference(before, after) == {
        "regions": {"ASIA": 4, "EU": None},
        "workers": [1, 2],
    }
    assert difference(after, after | {"now": 9.0}) == {}
