"""A stranger's trial: what a real Celery and a real RQ send is taken over as the page says."""

import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.environments import PEERS, install, with_pip
from mulligan.core.page import Selection
from tests.bridge.app import app
from tests.cli.command_line import do, good_json, process
from tests.databases._redis import RedisServer

HERE = Path(__file__).parent
LEFT = {
    "celery": {"pickled": "pickled", "chained": "a chain"},
    "rq": {"pickled": "pickled", "first": "depend on it", "dependent": "waits for other jobs"},
}
TAKEN = {"celery": 23, "rq": 22}


@contextmanager
def sent(system: str):
    """A Redis to which the shop has sent what it sends."""
    python = install(system, PEERS / f"{system}.txt", with_pip) / "bin" / "python"
    with RedisServer(fsync="no") as server:
        done = subprocess.run(
            [python, HERE / "shop.py", system],
            env={**os.environ, "SHOP_REDIS": server.url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield server.url


@pytest.mark.parametrize("system", LEFT)
def test_what_the_real_one_sent_is_taken_over_and_the_rest_is_told(system, tmp_path, monkeypatch):
    store = f"sqlite:///{tmp_path}/jobs.db"
    monkeypatch.setattr(app, "url", store)
    monkeypatch.setattr(app, "_memory", None)
    with sent(system) as url:
        said = good_json("bridge", system, "tests.bridge.app:app", "--from", url)
        assert said["taken"] == TAKEN[system]
        why = {each["id"]: each["reason"] for each in said["messages"]}
        assert set(why) == set(LEFT[system])
        for name, words in LEFT[system].items():
            assert words in why[name]
        again = good_json("bridge", system, "tests.bridge.app:app", "--from", url)
        assert (again["taken"], again["left"]) == (0, len(why))

    async def read(opened):
        page = await opened.page(Selection(status="pending"), 100)
        return {job.id: job for job in page.jobs}

    found = do(store, read)
    assert len(found) == TAKEN[system]
    assert 3000 < found["later"].due - time.time() < 3601
    if system == "celery":
        assert found["retried"].retry_count == 2
    else:
        assert b'"seconds":[7' in found["retried"].body


def test_the_real_celery_sends_and_mulligan_runs(tmp_path):
    """Side by side: the shop sends with Celery, the bridge follows, a worker of ours runs."""
    store = f"sqlite:///{tmp_path}/jobs.db"
    with (
        sent("celery") as url,
        process(
            "bridge", "celery", "tests.bridge.app:app", "--from", url, "--follow", TEST_STORE=store
        ) as bridge,
        process("worker", "tests.bridge.app:app", TEST_STORE=store),
    ):

        async def done(opened):
            return (await opened.page(Selection(status="done"), 100, bodies=False)).jobs

        while not Path(tmp_path / "jobs.db").exists() or len(do(store, done)) < 22:
            assert bridge.poll() is None
            time.sleep(0.1)
        bridge.terminate()
        assert bridge.stdout is not None
        assert "Took 23 messages over from Celery" in bridge.stdout.read()
