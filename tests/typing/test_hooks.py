"""Hooks and resources: mypy and pyright allow what runs, and find what cannot."""

import json
import subprocess
import sys

from tests.typing.test_types import mypy, without_errors

HOOKS = """
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, assert_type

from mulligan import INJECTED, CurrentCall, JobEvent, JobHandle, Mulligan, Resource

class Pool:
    def fetch(self, key: str) -> int:
        return 1

@asynccontextmanager
async def lifespan(app: Mulligan) -> AsyncIterator[dict[str, Any]]:
    yield {"db": Pool()}

@contextmanager
def plain_lifespan(app: Mulligan) -> Iterator[None]:
    yield

app = Mulligan("memory://", lifespan=lifespan)
Mulligan("memory://", lifespan=plain_lifespan)
Db = Annotated[Pool, Resource("db")]

@app.task
async def look(key: str, *, db: Db = INJECTED) -> int:
    return db.fetch(key)

@app.task
def plain(key: str, db: Annotated[Pool, Resource("db")] = INJECTED) -> int:
    return db.fetch(key)

@app.task
async def named(number: int, *, db: Db = INJECTED) -> str:
    return str(number)

@app.middleware
async def timing(call: Callable[[], Any], job: CurrentCall) -> Any:
    assert_type(job.attempt, int)
    return await call()

@app.middleware(plain_only=True)
def in_thread(call: Callable[[], Any], job: CurrentCall) -> Any:
    return call()

@app.on("retry")
@app.on("dead")
async def told(event: JobEvent) -> None:
    assert_type(event.runtime, float | None)

@app.on("enqueue")
def count(event: JobEvent) -> None: ...

assert_type(look.enqueue("x"), JobHandle[int])
assert_type(plain.enqueue("x").result(), int)
assert_type(plain("x", db=Pool()), int)
with app.testing(resources={"db": Pool()}) as t:
    t.drain()
(named | plain).enqueue(5)

async def main() -> None:
    assert_type(await look("x", db=Pool()), int)
    assert_type(await look.aenqueue("x"), JobHandle[int])

"""
WRONG = [
    "look.enqueue()",
    "look.enqueue('x', db='pool')",
    "plain('x', db=5)",
    "app.on('failure')",
    "app.on('dead')(lambda: None)",
    "app.middleware(lambda call: call())",
    "app.middleware(plain_only=1.5)",
    "Mulligan('memory://', lifespan=5)",
    "app.testing(resources=[1])",
]


def test_mypy_allows_what_runs(tmp_path):
    assert not mypy(tmp_path, HOOKS)


def test_mypy_finds_what_cannot_run(tmp_path):
    assert without_errors(tmp_path, HOOKS, WRONG) == []


def test_pyright_agrees(tmp_path):
    (tmp_path / "script.py").write_text(HOOKS + "\n".join(WRONG))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = {each["range"]["start"]["line"] for each in found if each["severity"] == "error"}
    first = HOOKS.count("\n")
    assert errors == set(range(first, first + len(WRONG)))
