"""A worker whose store is away waits for it, and does next to nothing meanwhile."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from mulligan.core.errors import StoreUnavailableError
from tests.databases import SERVERS
from tests.resources.backlog import producer
from tests.resources.process_sample import look, share_of_a_core
from tests.resources.silence import BRIEFLY, deaf, locked
from tests.resources.worker_process import Process, worker
from tests.store_kit import require, with_query

AWAY, MOST = 6.0, 0.02
# It was found to use up to a hundredth of a core; a loop that does not rest uses all of one.
SILENT, SPINNING = 2.5, 0.2
T = TypeVar("T")


@pytest.mark.parametrize("store", list(SERVERS))
def test_a_worker_is_idle_while_its_store_is_away_and_goes_on_when_it_is_back(store):
    require(store)
    with SERVERS[store]() as server, worker(server.url) as process:
        assert ask(server.url, 1) == 1
        server.kill()
        share = at_work(process, AWAY)
        server.start()
        assert ask(server.url, 2) == 2
    assert share < MOST


@pytest.mark.parametrize("store", list(SERVERS))
def test_a_server_that_says_nothing_is_given_up_and_used_again_when_it_speaks(store):
    """What it was asked meanwhile it may have heard or not: it can be sent again."""
    require(store)
    with SERVERS[store]() as server:
        url = with_query(server.url, **BRIEFLY[store])
        with worker(url) as process, producer(url) as app:
            quick = app.tasks["quick"]
            assert quick.enqueue(1).result(timeout=60) == 1
            with deaf(server):
                with pytest.raises(StoreUnavailableError):
                    quick.using(id="perhaps").enqueue(2)
                share = at_work(process, SILENT)
            again = insisted(lambda: quick.using(id="perhaps").enqueue(2))
            assert insisted(lambda: again.result(timeout=60)) == 2
    assert share < SPINNING


def test_a_worker_is_idle_while_another_holds_its_file_and_goes_on_after_it(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with worker(url) as process:
        assert ask(url, 1) == 1
        with locked(url):
            share = at_work(process, SILENT)
        assert ask(url, 2) == 2
    assert share < SPINNING


def at_work(process: Process, seconds: float) -> float:
    """Which part of a core the worker uses, once it has noticed that its store is away."""
    time.sleep(1)
    before = look(process.pid)
    time.sleep(seconds)
    return share_of_a_core(before, look(process.pid))


def ask(url: str, number: int) -> object:
    """Have a job run, and wait for its result."""
    with producer(url) as app:
        return app.tasks["quick"].enqueue(number).result(timeout=60)


def insisted(call: Callable[[], T]) -> T:
    """The answer, at last: so short a limit may be too short for a busy machine."""
    while True:
        with suppress(StoreUnavailableError):
            return call()
