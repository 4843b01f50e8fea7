"""Every store answers as the memory store does, whatever is asked of it and in whatever order.

The programs are the same everywhere; `make explore` draws new ones.
"""

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.contract.programs import Program, compare
from tests.contract.undivided import undivided
from tests.store_kit import STORES, require

# As many as each store answers in a few seconds; memory only shows that comparing works.
PROGRAMS = {"memory": 3, "sqlite": 10, "redis": 10, "postgres": 6, "mongo": 2, "shards": 40}
# With those of the proof there are so many times as many.
MORE = 8

pytestmark = [
    pytest.mark.timeout(900),  # a failure is made shorter before it is shown, which takes a while
    pytest.mark.parametrize("name", [*STORES, "shards"]),
]


def test_a_store_answers_as_the_memory_store_does(name, tmp_path):
    compare_all(name, range(PROGRAMS[name]), tmp_path)


@pytest.mark.prove
def test_a_store_answers_as_the_memory_store_does_for_long(name, tmp_path):
    compare_all(name, range(PROGRAMS[name], MORE * PROGRAMS[name]), tmp_path)


def compare_all(name: str, seeds: range, tmp_path: Path) -> None:
    """Run the program of each seed on the store and on memory."""
    require(name)
    for seed in seeds:
        with undivided() if name == "shards" else nullcontext():
            differing = compare(name, Program(seed), tmp_path)
        assert differing is None, str(differing)
