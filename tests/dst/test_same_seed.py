"""A seed is a day: the same one wherever it is lived through."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from tests.dst.__main__ import commit
from tests.dst.day import live

encode = msgspec.json.Encoder(enc_hook=str).encode


def written(seed: int, store: str = "memory://") -> list[bytes]:
    return [encode(event) for event in live(seed, store).events]


@pytest.mark.parametrize("seed", [3, 5, 8])
@pytest.mark.parametrize("store", ["memory://", "sqlite://"])
def test_the_same_seed_gives_the_same_history_to_the_last_event(seed, store):
    first, second = written(seed, store), written(seed, store)

    differing = [place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    assert differing == []
    assert len(first) == len(second) > 1000


def test_different_seeds_give_different_days():
    assert hash(tuple(written(1))) != hash(tuple(written(2)))


@pytest.mark.parametrize("seed", [9, 955])
def test_in_another_process_it_is_the_same_day(seed):
    command = [sys.executable, "-m", "tests.dst", f"--seed={seed}", "--json"]
    told = [
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": hashes},
        ).stdout
        for hashes in ("1", "4")
    ]

    assert json.loads(told[0]) == json.loads(told[1])
    assert json.loads(told[0])["violations"] == []
    assert json.loads(told[0])["commit"] == commit()
