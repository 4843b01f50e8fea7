"""A store's server that goes away under a worker and comes back."""

import time
from urllib.parse import urlsplit

import pytest

from tests.databases import SERVERS, Unavailable
from tests.lessons.app import make_app, stumbles
from tests.lessons.processes import processes
from tests.store_kit import calls_for, require

# A worker tries a store that is away every few seconds; a busy machine takes its time.
SOON = 30.0


@pytest.fixture(params=list(SERVERS))
def server(request):
    """A server of the test's own, which it may kill."""
    require(request.param)
    made = SERVERS[request.param]()
    try:
        made.start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield made
    made.stop()


@pytest.mark.timeout(300)
def test_after_a_store_restart_delayed_jobs_run_on_time(server, tmp_path):
    """dramatiq#527, celery#8030: workers connected again and took nothing, or all of it at once."""
    url = server.url
    if url.startswith("mongodb:"):
        url = urlsplit(url)._replace(path="/lessons").geturl()
    app = make_app(url)
    with processes(url, tmp_path) as run:
        run.worker()
        [before] = app.enqueue_many(calls_for(app, [stumbles.call()]))
        assert before.result(timeout=60) == 3  # the worker is at work
        calls = [stumbles.using(delay=seconds).call() for seconds in (3, 0.5, 3600)]
        sent = [handle.id for handle in app.enqueue_many(calls_for(app, calls))]
        app.close()
        server.kill()
        server.start()
        back = time.time()
        delayed, *_ = jobs = [app.job(name) for name in sent]
        assert [job.result(timeout=120) for job in jobs[:2]] == [3, 3]
        told = delayed.info()
        history = delayed.history()
        due = told.created_at + 3
        assert due <= history[0].started_at <= max(due, back) + SOON
        assert [(each.number, each.type) for each in history] == [
            (1, "ConnectionError"),
            (2, "ConnectionError"),
        ]
        assert jobs[2].status == "pending"
        noted = [line for line in run.ledger() if line.startswith(delayed.id)]
        assert noted == [f"{delayed.id} attempt {number}" for number in (1, 2, 3)]
    app.close()
