"""A worker tells of its process and obeys orders, on every store."""

import asyncio
import os

import pytest

from mulligan import current_job
from mulligan.core.worker import (
    ABOUT,
    KEEP_ORDER,
    ORDER,
    Order,
    Worker,
    encode_note,
    read_about,
)
from mulligan.engine import heartbeat
from mulligan.engine.heartbeat import WorkerNote, memory
from tests.engine.test_on_every_store import app, working

__all__ = ["app"]
WORKER = Worker("w-1")


async def test_a_worker_tells_of_its_process_until_it_leaves(store):
    note = WorkerNote(store, WORKER, "shop:app", lambda _order: None)
    await note.look()
    about = read_about(await store.notes(ABOUT))["w-1"]
    assert (about.pid, about.app, about.memory is None) == (os.getpid(), "shop:app", False)
    await note.forget()
    assert await store.notes(ABOUT) == {}


async def test_an_order_is_obeyed_once_and_another_after_it(store):
    obeyed: list[Order] = []
    note = WorkerNote(store, WORKER, "shop:app", obeyed.append)
    for order in ("drain", "drain", "stop"):
        await store.note(ORDER + "w-1", encode_note(order), KEEP_ORDER)
        await store.note(ORDER + "w-12", encode_note("stop"), KEEP_ORDER)
        await note.look()
    assert obeyed == ["drain", "stop"]


@pytest.mark.parametrize(("order", "cut_off"), [("drain", False), ("stop", True)])
async def test_a_worker_that_is_ordered_to_exits(app, monkeypatch, order, cut_off):
    monkeypatch.setattr(heartbeat, "LOOK_EVERY", 0.01)
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> str:
        started.set()
        await may_end.wait()
        return current_job().id

    async with working(app) as engine:
        job = await long.aenqueue()
        await started.wait()
        key = ORDER + engine.worker.id
        await app.access.acall(lambda store: store.note(key, encode_note(order), KEEP_ORDER))
        while not engine.stopping:  # noqa: ASYNC110 - the engine has no event for it
            await asyncio.sleep(0.01)
        if not cut_off:
            may_end.set()
            assert await job.aresult(timeout=60) == job.id
    assert engine.cut_off is cut_off
    notes = await app.access.acall(lambda store: store.notes(ABOUT))
    assert notes == {}


def test_where_the_system_does_not_say_memory_is_not_known(monkeypatch):
    def refuse(path: object) -> str:
        raise OSError(str(path))

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    assert memory() is None
