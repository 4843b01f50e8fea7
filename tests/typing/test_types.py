"""A wrong call is an error for mypy, and a right one keeps the function's types."""

import re
import subprocess
import sys
from pathlib import Path

HEADER = """
from mulligan import JobHandle, Mulligan, Retry

app = Mulligan("memory://")

@app.task
def plain(question: str, times: int = 1) -> list[str]:
    return [question] * times

@app.task(queue="questions", retry=Retry(3), timeout=30)
async def coroutine(question: str) -> dict[str, int]:
    return {question: 1}

"""


def mypy(tmp_path: Path, code: str) -> str:
    """What mypy says of the code."""
    script = tmp_path / "script.py"
    script.write_text(code)
    # One cache for all of these tests: to check mulligan itself takes nearly all of the time.
    options = ("--strict", "--no-error-summary", "--cache-dir", str(tmp_path.parent / "mypy-cache"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def without_errors(tmp_path: Path, before: str, lines: list[str]) -> list[str]:
    """Those of the lines in which mypy finds nothing wrong."""
    said = mypy(tmp_path, before + "\n".join(lines))
    wrong = {int(number) for number in re.findall(r"script\.py:(\d+): error:", said)}
    first = before.count("\n") + 1
    return [line for number, line in enumerate(lines, first) if number not in wrong]


GOOD = (
    HEADER
    + """
from typing import assert_type

assert_type(plain("a", times=2), list[str])
assert_type(plain.enqueue("a"), JobHandle[list[str]])
assert_type(plain.enqueue("a").result(), list[str])
assert_type(coroutine.enqueue("a").result(timeout=5), dict[str, int])
assert_type(plain.using(region="US", delay=10, priority="urgent").enqueue("a", 2).id, str)
app.enqueue_many(coroutine.call(q) for q in ("a", "b"))

async def main() -> None:
    assert_type(await coroutine("a"), dict[str, int])
    assert_type(await coroutine.aenqueue("a"), JobHandle[dict[str, int]])
"""
)


def test_the_decorator_keeps_the_functions_types(tmp_path):
    """rq#2203: with a decorated function, neither arguments nor results were checked."""
    assert not mypy(tmp_path, GOOD)


WRONG = [
    "plain.enqueue(5)",
    "plain.enqueue()",
    "plain.enqueue('a', colour='red')",
    "coroutine.enqueue('a', 2)",
    "coroutine.call(5)",
    "plain.using(priority='high')",
    "plain.using(colour='red')",
    "plain.using(delay='soon').enqueue('a')",
    "plain.using(delay=5).enqueue(b'a')",
    "app.task(retry=3)",
]


def test_every_wrong_call_is_an_error_for_mypy(tmp_path):
    assert without_errors(tmp_path, HEADER, WRONG) == []
