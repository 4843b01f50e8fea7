"""An app that was used before a fork works on both sides of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.store_kit import fresh_url

PROJECT = Path(__file__).parents[2]

# The parent enqueues, forks, and both sides enqueue; then the parent counts what is stored.
FORKED = """
import os, sys
from mulligan import Mulligan
from mulligan.core.page import Selection

app = Mulligan(sys.argv[1])

@app.task
def add(a: int) -> int:
    return a

add.using(id="before").enqueue(1)
child = os.fork()
if not child:
    add.using(id="child").enqueue(2)
    os._exit(0)
add.using(id="parent").enqueue(3)
_, status = os.waitpid(child, 0)
assert status == 0, status

async def ids(store):
    return sorted(job.id for job in (await store.page(Selection(), 10)).jobs)

print(*app.run(lambda: app.access.acall(ids)))
app.close()
"""

# The same by the standard library's way, from a process that has enqueued.
POOLED = """
import multiprocessing, sys
from mulligan import Mulligan
from mulligan.core.page import Selection

app = Mulligan(sys.argv[1])

@app.task
def add(a: int) -> int:
    return a

def send(number):
    return add.using(id=f"child{number}").enqueue(number).id

async def ids(store):
    return sorted(job.id for job in (await store.page(Selection(), 10)).jobs)

add.using(id="before").enqueue(1)
with multiprocessing.get_context("fork").Pool(2) as pool:
    pool.map(send, range(3))
print(*app.run(lambda: app.access.acall(ids)))
app.close()
"""


def run(script: str, url: str) -> str:
    """What the script prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, url],
        capture_output=True, text=True, timeout=60, check=False, cwd=PROJECT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres", "mongo"])
async def test_parent_and_child_both_enqueue_after_a_fork(store, tmp_path):
    async with fresh_url(store, tmp_path) as url:
        assert run(FORKED, url) == "before child parent"


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres", "mongo"])
async def test_a_pool_of_forked_processes_enqueues(store, tmp_path):
    async with fresh_url(store, tmp_path) as url:
        assert run(POOLED, url) == "before child0 child1 child2"


def test_memory_is_not_shared_with_a_forked_process_and_says_so():
    done = subprocess.run(
        [sys.executable, "-c", FORKED, "sqlite://"],
        capture_output=True, text=True, timeout=60, check=False, cwd=PROJECT,
    )  # fmt: skip
    assert "a store in memory is not shared with a forked process; use a file" in done.stderr
