"""docs/reference/errors.md: each message in it is what mulligan says, word for word."""

import asyncio
import importlib
import json
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan import (
    InvalidError,
    JobFailedError,
    Mulligan,
    MulliganError,
    ResultTimeoutError,
    Retry,
    Settings,
    StoreUnavailableError,
    UnknownJobError,
    UnknownLimitError,
    current_job,
)
from mulligan.cli.health import answer, bind
from mulligan.core.decide import SNOOZE_LIMIT
from mulligan.stores import make_store
from tests.cli.command_line import run

PAGE = (Path(__file__).parents[2] / "docs/reference/errors.md").read_text()
MESSAGES = [line[4:] for line in PAGE.splitlines() if line.startswith("    ")]


def is_on_the_page(said: str) -> None:
    """The page has a line that the message ends with, or that it continues."""
    said = said.strip()
    assert any(said.endswith(line) or said.startswith(line) for line in MESSAGES), said


async def plain() -> None: ...


@pytest.fixture
def app():
    made = Mulligan("memory://", settings=Settings(payload_limit=1000, result_limit=1000))

    @made.task(retry=Retry(0))
    def charge(order: int) -> object:
        ways = {1: lambda: "x" * 2000, 2: lambda: float("nan"), 3: lambda: 1 / 0, 4: plain}
        return ways[order]()

    @made.task(name="refund")
    def refund(note: str) -> None: ...

    @made.task(retry=Retry(0))
    async def waits(job: str) -> object:
        return made.job(job).result()

    @made.task(retry=Retry(0), timeout=0.2)
    async def slow() -> None:
        await asyncio.sleep(60)

    return made


@pytest.fixture
def limited(app):
    app.limit("openai", rate=60, per=60)
    app.limit("tokens", rate=500, burst=50)
    app.limit("tenant:*", concurrency=2)
    return app


def test_a_type_that_cannot_be_carried():
    class Cart:
        """Any class."""

    def charge(cart: Cart) -> None: ...

    with pytest.raises(InvalidError) as told:
        Mulligan("memory://").task(charge)
    is_on_the_page(str(told.value))


def test_a_wrong_url():
    with pytest.raises(InvalidError) as told:
        make_store("rabbitmq://localhost")
    is_on_the_page(str(told.value))


class NotInstalled:
    """Finds no driver of Redis, nor what it needs."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in ("redis", "hiredis"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_missing_driver(monkeypatch):
    for name in list(sys.modules):
        if name.split(".")[0] in ("redis", "hiredis") or name.startswith("mulligan.stores.redis"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NotInstalled(), *sys.meta_path])
    with pytest.raises(InvalidError) as told:
        make_store("redis://localhost")
    is_on_the_page(str(told.value))


def test_a_task_where_a_call_belongs(app):
    with pytest.raises(InvalidError) as told:
        app.enqueue_many([app.tasks["charge"]])
    is_on_the_page(str(told.value))


def test_text_where_a_number_belongs():
    with pytest.raises(InvalidError) as told:
        Settings(concurrency=json.loads('"50"'))
    is_on_the_page(str(told.value))


def test_a_server_that_is_not_there():
    pytest.importorskip("redis")
    app = Mulligan("redis://127.0.0.1:1/0")
    with pytest.raises(StoreUnavailableError) as told:
        app.job("a-1").info()
    app.close()
    is_on_the_page(str(told.value))


def test_a_file_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    is_on_the_page(run("status", "--store", "sqlite:///jobs.db").output)


def test_an_app_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shop.py").write_text("from mulligan import Mulligan\napp = Mulligan('memory://')")
    is_on_the_page(run("worker", "shop:nosuch").output)


def test_a_task_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "stall.py").write_text(
        "from mulligan import Mulligan\napp = Mulligan('memory://')\n"
        "@app.task\ndef charge(): ...\n@app.task\ndef refund(): ...\n"
    )
    is_on_the_page(run("enqueue", "stall:app", "chrage").output)


def test_a_task_that_no_worker_knows(app):
    other = Mulligan("memory://")

    @other.task
    def chrage() -> None: ...

    with app.testing() as t:
        [job] = app.run(lambda: app.asend([chrage.call().job]))
        for _ in range(SNOOZE_LIMIT + 1):
            t.advance(10)
        with pytest.raises(JobFailedError) as told:
            app.job(job.id).result()
    is_on_the_page(str(told.value).split("failed: ", 1)[1])


def test_a_misspelled_option(app):
    with pytest.raises(InvalidError) as told:
        app.task(acept=bool)
    is_on_the_page(str(told.value))


@pytest.mark.parametrize(("task", "args"), [("charge", ("abc",)), ("charge", (1, 2))])
def test_arguments_that_do_not_fit(app, task, args):
    with pytest.raises(InvalidError) as told:
        app.tasks[task].enqueue(*args)
    is_on_the_page(str(told.value))


def test_a_payload_that_is_too_large(app):
    with pytest.raises(InvalidError) as told:
        app.tasks["refund"].enqueue("x" * 2000)
    is_on_the_page(str(told.value))


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_result_that_cannot_be_stored(app, order):
    with app.testing(), pytest.raises(JobFailedError) as told:
        app.tasks["charge"].enqueue(order).result()
    is_on_the_page(str(told.value).split("failed: ", 1)[1])


def test_a_job_without_an_argument_that_its_task_gained(app):
    @Mulligan("memory://").task
    def charge() -> None: ...

    job = charge.call().job
    with app.testing() as t:
        t.run(t.store.enqueue([job]))
        with pytest.raises(JobFailedError) as told:
            app.job(job.id).result()
    is_on_the_page(str(told.value).split("failed: ", 1)[1])


def test_a_failure_has_its_traceback_below(app):
    with app.testing(), pytest.raises(JobFailedError) as told:
        app.tasks["charge"].using(id="a-1").enqueue(3).result()
    is_on_the_page(str(told.value))
    assert "ZeroDivisionError" in str(told.value.traceback)


def test_a_timeout(app):
    with app.testing(), pytest.raises(JobFailedError) as told:
        app.tasks["slow"].enqueue().result()
    is_on_the_page(str(told.value).split("\n\n")[0])


def test_a_coroutine_that_blocks(app):
    with app.testing(), pytest.raises(JobFailedError) as told:
        app.tasks["waits"].enqueue("a-1").result()
    is_on_the_page(str(told.value).split("\n\n")[0])


def test_no_worker(app):
    job = app.tasks["charge"].enqueue(3)
    with pytest.raises(ResultTimeoutError) as told:
        job.result(timeout=0)
    is_on_the_page(str(told.value))


def test_a_wrong_region(app):
    with app.testing(), pytest.raises(ResultTimeoutError) as told:
        app.tasks["charge"].using(region="EU").enqueue(3).result(timeout=1)
    is_on_the_page(str(told.value))


@pytest.mark.parametrize(
    "limits",
    [
        "opnai",
        {"tokens": 90},
        {"openai": -1},
        [f"tenant:{number}" for number in range(9)],
        "tenant:*",
    ],
)
def test_limits_that_a_job_cannot_name(limited, limits):
    with pytest.raises(InvalidError) as told:
        limited.tasks["refund"].using(limits=limits).enqueue("note")
    is_on_the_page(str(told.value))


@pytest.mark.parametrize("numbers", [{}, {"rate": 0}])
def test_a_limit_that_says_nothing_or_allows_nothing(app, numbers):
    with pytest.raises(InvalidError) as told:
        app.limit("openai", **numbers)
    is_on_the_page(str(told.value))


def test_a_weight_that_starves(app):
    with pytest.raises(InvalidError) as told:
        app.queue("default", weights={"acme": 0})
    is_on_the_page(str(told.value))


def test_limits_that_are_not_there_and_why_one_waits(app):
    app.limit("openai", rate=2, per=60)
    app.limit("tenant:*", concurrency=1)
    with app.testing() as t:
        app.configure()
        with pytest.raises(UnknownLimitError) as told:
            app.limits.get("opnai")
        is_on_the_page(str(told.value))
        with pytest.raises(InvalidError) as refused:
            app.limits.pause("tenant:*", 5)
        is_on_the_page(str(refused.value))
        jobs = [app.tasks["refund"].using(limits="openai").enqueue(str(n)) for n in range(3)]
        t.advance(0)
        is_on_the_page(jobs[2].explain())


def test_a_job_that_is_not_stored(app):
    with pytest.raises(UnknownJobError) as told:
        app.job("nope").info()
    is_on_the_page(str(told.value))


async def test_a_connection_that_does_not_fit(tmp_path):
    connection = sqlite3.connect(":memory:")
    by_redis = Mulligan("redis://localhost").task(len).using(connection=connection)
    by_file = Mulligan(f"sqlite:///{tmp_path}/jobs.db").task(len).using(connection=connection)
    for enqueue in (by_redis.enqueue, by_file.enqueue):
        with pytest.raises(InvalidError) as told:
            enqueue("a")
        is_on_the_page(str(told.value))
    with pytest.raises(InvalidError) as told:
        await by_file.aenqueue("a")
    is_on_the_page(str(told.value))
    connection.close()


def test_web_applications_and_tests():
    from starlette.requests import HTTPConnection  # noqa: PLC0415 - as a user of it has it

    from mulligan.contrib.starlette import Principal, get_app  # noqa: PLC0415
    from pytest_mulligan import NO_APP  # noqa: PLC0415 - pytest has imported it

    with pytest.raises(MulliganError) as refusal:
        get_app(HTTPConnection({"type": "http"}))
    is_on_the_page(str(refusal.value))
    with pytest.raises(InvalidError) as invalid:
        Principal("alice", ["admin"])
    is_on_the_page(str(invalid.value))
    is_on_the_page(NO_APP)
    without = (
        "import sys; sys.modules['prometheus_client'] = None; import mulligan.contrib.starlette"
    )
    command = [sys.executable, "-c", without]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    is_on_the_page(failed.stderr.splitlines()[-1])


def test_current_job_outside_a_task():
    with pytest.raises(MulliganError) as told:
        current_job()
    is_on_the_page(str(told.value))


def test_a_health_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MulliganError) as told:
            bind("127.0.0.1", port)
    is_on_the_page(str(told.value).replace(str(port), "8421"))


def test_traces_that_are_not_installed(monkeypatch):
    for name in [name for name in sys.modules if "opentelemetry" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ModuleNotFoundError) as told:
        importlib.import_module("mulligan.contrib.opentelemetry")
    is_on_the_page(str(told.value))


async def test_a_worker_whose_store_is_away_is_not_ready():
    reader = asyncio.StreamReader()
    reader.feed_data(b"GET /readyz HTTP/1.1\r\n\r\n")
    status, said = await answer(reader, lambda: "claims fail", lambda: "")
    assert status == 503
    is_on_the_page(json.dumps(said))
