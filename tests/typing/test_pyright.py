"""Pyright agrees with mypy on every file of these tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing import test_chains, test_stages, test_types

SUBJECTS = {"types": test_types, "chains": test_chains, "stages": test_stages}
PREAMBLES = {
    "types": test_types.HEADER,
    "chains": test_chains.TASKS,
    "stages": test_stages.TASKS,
}


def pyright(folder: Path) -> dict[str, set[int]]:
    """The lines in which pyright finds errors, by file; it is slow to start, so it runs once."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
        pytest.fail(f"pyright did not run; does it have its node? {done.stdout}{done.stderr}")
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == len(list(folder.iterdir()))
    found: dict[str, set[int]] = {}
    for each in said["generalDiagnostics"]:
        if each["severity"] == "error":
            lines = found.setdefault(Path(each["file"]).stem, set())
            lines.add(each["range"]["start"]["line"] + 1)
    return found


def test_pyright_finds_nothing_wrong_where_mypy_does_not_and_every_wrong_line(tmp_path):
    for name, subject in SUBJECTS.items():
        (tmp_path / f"good_{name}.py").write_text(subject.GOOD)
        (tmp_path / f"wrong_{name}.py").write_text(PREAMBLES[name] + "\n".join(subject.WRONG))
    wrong = {}
    for name, subject in SUBJECTS.items():
        first = PREAMBLES[name].count("\n") + 1
        wrong[f"wrong_{name}"] = set(range(first, first + len(subject.WRONG)))
    assert pyright(tmp_path) == wrong
