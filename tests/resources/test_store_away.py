"""A worker whose store is away waits for it, and does next to nothing meanwhile."""

import time

import pytest

from tests.resources.backlog import producer
from tests.resources.sampling import look, share_of_a_core
from tests.resources.working import worker
from tests.servers import SERVERS
from tests.stores import require

AWAY, MOST = 6.0, 0.02


@pytest.mark.slow
@pytest.mark.parametrize("store", list(SERVERS))
def test_a_worker_is_idle_while_its_store_is_away_and_goes_on_when_it_is_back(store):
    require(store)
    with SERVERS[store]() as server, worker(server.url) as process:
        assert ask(server.url, 1) == 1
        server.kill()
        time.sleep(1)  # until it has noticed
        before = look(process.pid)
        time.sleep(AWAY)
        share = share_of_a_core(before, look(process.pid))
        server.start()
        assert ask(server.url, 2) == 2
    assert share < MOST


def ask(url: str, number: int) -> object:
    """Have a job run, and wait for its result."""
    with producer(url) as app:
        return app.tasks["quick"].enqueue(number).result(timeout=60)
