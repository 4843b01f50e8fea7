"""The proof of examples/announcements, scaled down to a few seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.announcements.database import Database
from examples.announcements.run import judged
from tests.store_kit import fresh_url

ROOT = Path(__file__).parents[2]
QUICK = ("--seconds", "3", "--announcements", "40", "--kill-every", "1")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_every_announcement_is_there_once_and_none_is_an_error(store, tmp_path):
    async with fresh_url(store, tmp_path) as url:
        ended = run("examples.announcements.run", *QUICK, "--store", url)
        Database(url).drop()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("✓") == 8
    assert "✗" not in ended.stdout
    [killed] = [line for line in ended.stdout.splitlines() if "a worker is killed" in line]
    assert "0" not in killed


ONE_EACH = [(0, "earnings"), (1, "merger")]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (ONE_EACH, []),
        (ONE_EACH[:1], ["announcements", "rows"]),
        ([*ONE_EACH, ONE_EACH[0]], ["rows"]),
        ([ONE_EACH[0], (1, "Error")], ['category "Error"']),
        ([ONE_EACH[0], (1, "earnings")], ["another wrong category"]),
    ],
)
def test_a_table_that_holds_something_else_is_judged_wrong(rows, wrong):
    assert [what for _, what, _, _, right in judged("records", rows, 2) if not right] == wrong


def test_its_fleet_file_makes_sense(tmp_path):
    checked = run("mulligan", "supervise", "examples/announcements/fleet.toml", "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
