"""Every store answers as the memory store does, whatever is asked of it and in whatever order.

Each example is a program of 80 commands on an empty store. MULLIGAN_EXAMPLES=500 tries more.
"""

import os
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from tests.contract.comparison import Comparison
from tests.contract.drawing import program
from tests.stores import STORES, require

LENGTH = 80
# As many as each store answers in about fifteen seconds; memory only shows that comparing works.
EXAMPLES = {"memory": 10, "sqlite": 50, "redis": 50, "postgres": 30, "mongo": 15}
SETTINGS = settings(
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    phases=(Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,  # the commands say more than the seed and the mask
)
# Which program it is, and which commands of it are done: an example is made smaller by doing fewer.
seeds = st.integers(0, 2**32)
masks = st.lists(st.sampled_from([False] + [True] * 19), min_size=LENGTH, max_size=LENGTH)


@pytest.mark.timeout(900)  # a failure is made smaller before it is shown, which takes a while
@pytest.mark.parametrize("name", STORES)
def test_a_store_answers_as_the_memory_store_does(name, tmp_path):
    require(name)

    @settings(SETTINGS, max_examples=int(os.environ.get("MULLIGAN_EXAMPLES", EXAMPLES[name])))
    @given(seed=seeds, mask=masks)
    def compare(seed, mask):
        drawn = program(Random(seed), LENGTH)
        commands = [command for command, done in zip(drawn, mask, strict=True) if done]
        try:
            Comparison(name, tmp_path).run(commands)
        except Exception as error:
            error.add_note("\n".join(map(str, commands)))
            raise

    compare()
