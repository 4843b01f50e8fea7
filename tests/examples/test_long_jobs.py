"""The proofs of examples/etl and examples/agent, scaled down; in full they are killed ten times."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.agent.run import Seen, shown
from examples.agent.service import Ledger
from tests.store_kit import fresh_url

ROOT = Path(__file__).parents[2]
FEW = {
    "etl": ("--rows", "200", "--seconds", "0.02", "--kills", "2"),
    "agent": ("--turns", "3", "--kills", "2"),
}
SERVERS = ("sqlite", "redis", "postgres", "mongo")


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"examples.{example}.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def is_right(ended: subprocess.CompletedProcess[str]) -> bool:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return "✓" in ended.stdout and "✗" not in ended.stdout


@pytest.mark.parametrize("example", FEW)
def test_an_example_survives_being_killed(example):
    assert is_right(run(example, *FEW[example]))


@pytest.mark.prove
@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", SERVERS)
@pytest.mark.parametrize("example", FEW)
async def test_an_example_survives_ten_kills_on_every_store(example, store, tmp_path):
    async with fresh_url(store, tmp_path) as url:
        slower = ("--seconds", "0.015") if example == "etl" else ()
        assert is_right(run(example, "--store", url, *slower))


@pytest.mark.parametrize(
    ("bills", "steps", "right"),
    [
        ({"a": 1, "b": 1, "c": 1}, 3, True),
        ({"a": 2, "b": 1, "c": 1}, 3, False),
        ({"a": 1, "b": 1}, 3, False),
        ({"a": 1, "b": 1, "c": 1}, 2, False),
    ],
)
def test_a_ledger_in_which_a_step_is_billed_twice_or_never_is_wrong(bills, steps, right):
    ledger = Ledger()
    ledger.billed.update(bills)
    ledger.asked.update(bills)
    assert shown(Seen("it", steps, 1, 0, ledger), 3, 0) == right


def test_the_service_bills_a_key_once():
    ledger = Ledger()
    asked = {"tool": "search", "about": "golf"}
    assert [ledger.answer("k", asked) for _ in range(2)] == [
        ("search of golf", True),
        ("search of golf", False),
    ]
