"""`manage.py mulligan`: the commands of mulligan in a project of Django's."""

import json
import re
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from mulligan import JobFailedError, MulliganError
from tests.cli.command_line import read_until
from tests.databases import PostgresServer
from tests.django.site import Site, producer

TASKS = """
    import os
    from mulligan import Delays, Retry

    @task
    def double(number):
        return 2 * number

    @task(pool="process")
    def where():
        return os.getpid()
"""
DATABASE = """
    from django.db import connection
    from mulligan import Retry

    @task(retry=Retry(0))
    def pid():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return cursor.fetchone()[0]
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path, f"sqlite:///{tmp_path}/site.db", TASKS, database="default")
    assert made.run("migrate").returncode == 0
    return made


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A project in which nothing is written, so that it serves many tests."""
    folder = tmp_path_factory.mktemp("site")
    return Site(folder, f"sqlite:///{folder}/site.db", TASKS, database="default")


def url_of(site: Site) -> str:
    return f"sqlite:///{site.folder}/site.db"


def test_a_worker_runs_the_tasks_of_the_project(site):
    job = site.python("from work.tasks import double; print(double.enqueue(4).id)")
    with site.start("worker") as worker:
        said = read_until(worker, "ready for jobs")
        app = producer(url_of(site), "double")
        assert app.job(job).result(timeout=60) == 8
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
        assert worker.returncode == 0
    app.close()
    assert any("work.tasks.double, work.tasks.where" in line for line in said)
    read = "from work.tasks import double; print(double.get_result({!r}).return_value)"
    assert site.python(read.format(job)) == "8"


@pytest.mark.prove
def test_workers_in_processes_of_their_own_and_their_children_find_the_project(site):
    app = producer(url_of(site), "double", "where")
    with site.start("worker", "--processes", "2") as workers:
        child = app.tasks["work.tasks.where"].enqueue().result(timeout=60)
        assert child != workers.pid
        workers.send_signal(signal.SIGTERM)
        workers.communicate(timeout=60)
        assert workers.returncode == 0
    app.close()


@pytest.mark.prove
def test_a_worker_starts_again_when_the_code_has_changed(site):
    app = producer(url_of(site), "double")

    def answer() -> object:
        asked = "from work.tasks import double; print(double.enqueue(4).id)"
        return app.job(site.python(asked)).result(timeout=60)

    with site.start("worker", "--reload") as worker:
        read_until(worker, "ready for jobs")
        assert answer() == 8
        site.write(TASKS.replace("2 * number", "3 * number"))
        read_until(worker, "ready for jobs")
        assert answer() == 12
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    app.close()


def test_other_commands_look_at_the_same_jobs(site):
    job = site.python("from work.tasks import double; print(double.enqueue(4).id)")
    status = site.run("mulligan", "status", "--json")
    assert status.returncode == 0, status.stderr
    assert json.loads(status.stdout)["queues"]["default"]["fresh"] == 1
    call = ("nightly", "work.tasks.double", "4")
    site.run("mulligan", "schedules", "put", *call, "--cron", "0 3 * * *")
    listed = site.run("mulligan", "schedules", "list", "--json").stdout
    assert [each["name"] for each in json.loads(listed)["schedules"]] == ["nightly"]
    shown = site.run("mulligan", "job", job, "--settings", "settings")
    assert "work.tasks.double" in shown.stdout
    with site.start("serve", "--port", "0") as server:
        [address] = re.findall(r"http://[\d.:]+", "".join(read_until(server, "http://127")))
        with urlopen(f"{address}/api/jobs/{job}") as answer:  # noqa: S310 - our own
            assert json.load(answer)["task"] == "work.tasks.double"
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        assert server.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backend", "dummy", "status"], "backend 'dummy' is not one of mulligan's in TASKS"),
        (["--backend", "none", "worker"], "those are: default"),
        (["worker", "--colour", "red"], "No such option"),
        (["sing"], "no command is named 'sing'"),
    ],
)
def test_mistakes_are_answered_in_words(untouched, arguments, words):
    done = untouched.run("mulligan", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_the_commands(untouched):
    assert "worker, serve, status" in untouched.run("mulligan", "--help").stdout
    assert "--concurrency" in untouched.run("mulligan", "worker", "--help").stdout
    assert "worker" in untouched.run("mulligan").stdout


@pytest.mark.prove
@pytest.mark.parametrize("jobs", ["beside", "in it"])
def test_after_a_restart_of_postgres_the_next_job_works(tmp_path, jobs):
    """With connections that are kept, and no health checks in the settings of Django."""
    with PostgresServer() as server:
        url = server.url if jobs == "in it" else f"sqlite:///{tmp_path}/jobs.db"
        site = Site(tmp_path, server.url, DATABASE, url=url)
        app = producer(url, "pid")
        ask = app.tasks["work.tasks.pid"]
        with site.start("worker", "--threads", "1") as worker:
            first, second = (ask.enqueue().result(timeout=60) for _ in range(2))
            server.kill()
            server.start()
            pids = []
            for _ in range(40):
                job = enqueued(ask)
                pids.append(job.result(timeout=60))
                assert job.history() == []
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=60)
            assert worker.returncode == 0
        app.close()
    assert first == second  # the connection was kept while it was good
    assert first not in pids
    assert len(set(pids)) == 1


def enqueued(task):
    """The job; the producer's own connection may have to be made anew first."""
    while True:
        try:
            return task.enqueue()
        except JobFailedError:
            raise
        except (MulliganError, OSError):
            continue
