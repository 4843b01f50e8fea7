"""Django's connections in a worker: a PostgreSQL that is restarted costs no job its attempt."""

import pytest

from mulligan import JobFailedError, Mulligan
from tests.cli.command_line import process
from tests.databases import PostgresServer

APP = "tests.hooks.django_app:app"
pytestmark = pytest.mark.prove


@pytest.fixture
def server():
    with PostgresServer() as started:
        yield started


def producer(url: str) -> Mulligan:
    """An app that enqueues without Django."""
    app = Mulligan(url)

    @app.task
    def backend_pid() -> int:
        raise NotImplementedError

    @app.task
    async def beside() -> str:
        raise NotImplementedError

    return app


def restart(server: PostgresServer) -> None:
    server.kill()
    server.start()


def test_with_close_old_connections_as_middleware_the_next_job_works(server, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = producer(url)
    ask = app.tasks["backend_pid"]
    variables = {"DJANGO_POSTGRES": server.url, "JOBS": url, "FRESH": "yes"}
    with process("worker", APP, "--threads", "1", **variables) as worker:
        first, second = (ask.enqueue().result(timeout=60) for _ in range(2))
        restart(server)
        job = ask.enqueue()
        assert job.result(timeout=60) not in (first, second)
        assert job.history() == []
        assert app.tasks["beside"].enqueue().result(timeout=60) == "beside"
        worker.terminate()
        worker.communicate(timeout=60)
        assert worker.returncode == 0
    app.close()
    assert first == second  # the connection was kept while it was good


def test_without_it_the_connection_of_the_thread_stays_broken(server, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = producer(url)
    ask = app.tasks["backend_pid"]
    variables = {"DJANGO_POSTGRES": server.url, "JOBS": url}
    with process("worker", APP, "--threads", "1", **variables) as worker:
        ask.enqueue().result(timeout=60)
        restart(server)
        with pytest.raises(JobFailedError, match=r"OperationalError|InterfaceError"):
            ask.enqueue().result(timeout=60)
        worker.terminate()
        worker.communicate(timeout=60)
    app.close()
