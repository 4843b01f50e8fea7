"""Real workers start jobs in the order that the simulator says, and their trace says it again."""

import pytest

from mulligan.sim import load_scenario
from tests.cli.command_line import good
from tests.sim.real_run import QUICK, REAL, Start, place, real, simulated
from tests.store_kit import require


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ["sqlite", "redis"])
def test_three_real_workers_start_jobs_in_the_order_of_the_simulator(engine, tmp_path):
    require(engine)
    expected = simulated(load_scenario(REAL))
    trace = tmp_path / "trace.jsonl"
    # On a machine that is busy with something else, the quickest may be too quick.
    for scale in (QUICK, 3 * QUICK, 10 * QUICK):
        folder = tmp_path / str(scale)
        folder.mkdir()
        with place(engine, folder) as url:
            started = real(url, scale, folder)
            trace.write_text(good("history", "--store", url, "--since", "10m"))
        if started == expected:
            break
    assert started == expected
    again = load_scenario(str(trace))
    assert [region.name for region in again.regions] == ["ASIA", "EU", "US"]
    assert simulated(again) == expected
    first = load_scenario(REAL).jobs[0]
    assert Start(first.id, 1, first.region) == expected[0]
