"""The table of docs/proof/lessons.md names tests that exist, and every test of this folder."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs/proof/lessons.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TABLE)


def names_in(file: Path) -> set[str]:
    """The names of the tests in a file."""
    return set(re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE))


def test_every_named_test_exists():
    missing = [name for file, name in NAMED if name not in names_in(ROOT / file)]
    assert NAMED
    assert missing == []


def test_every_lesson_is_named():
    files = [file for file in Path(__file__).parent.glob("test_*.py") if file != Path(__file__)]
    known = {name for _, name in NAMED} | ALSO
    assert {name for file in files for name in names_in(file)} - known == set()


# What the same lesson needs beside the test that bears its name.
ALSO = {
    "test_a_job_may_be_followed_by_as_many_as_a_fan_out_has",
    "test_a_worker_that_comes_back_under_its_name_does_not_hide_its_old_jobs",
    "test_killing_who_reclaims_does_not_stop_reclaiming",
}
