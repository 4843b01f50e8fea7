"""Real workers start jobs in the order that the simulator says, and their trace says it again."""

import pytest

from mulligan.sim import load_scenario
from tests.cli.running import good
from tests.sim.real_run import QUICK, REAL, Start, place, real, simulated
from tests.stores import require


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
def test_three_real_workers_start_jobs_in_the_order_of_the_simulator(engine, tmp_path):
    require(engine)
    with place(engine, tmp_path) as url:
        expected = simulated(load_scenario(REAL))
        assert real(url, QUICK, tmp_path) == expected
        trace = tmp_path / "trace.jsonl"
        trace.write_text(good("history", "--store", url, "--since", "10m"))
    again = load_scenario(str(trace))
    assert [region.name for region in again.regions] == ["ASIA", "EU", "US"]
    assert simulated(again) == expected
    first = load_scenario(REAL).jobs[0]
    assert Start(first.id, 1, first.region) == expected[0]
