"""What a worker judged by itself beside what the store says of a breaker."""

from mulligan.core.facts import Facts, Region
from mulligan.core.health import Breaker, Health, Probe
from mulligan.engine.breakers import Breakers, Ending

QUEUE, REGION = "calls", "EU"


# Where there is a healthy region besides, the breaker is enforced.
REGIONS = tuple(Region(name, frozenset({QUEUE})) for name in (REGION, "US"))


def told(probes: int, probed_at: float) -> Facts:
    breaker = Breaker(open=True, probes=probes, probed_at=probed_at)
    return Facts(regions=REGIONS, health={(QUEUE, REGION): Health(breaker=breaker)})


def judged(breakers: Breakers) -> Breaker:
    return breakers.facts.current.health_of(QUEUE, REGION).breaker


def test_a_probe_of_its_own_counts_before_the_store_knows_of_it():
    breakers = Breakers(REGION)
    breakers.update(told(probes=-1, probed_at=10.0))
    breakers.ended(Ending(QUEUE, REGION, (), Probe(succeeded=False, started_at=12.0)))
    assert (judged(breakers).failed, judged(breakers).probed_at) == (2, 12.0)


def test_a_later_probe_of_another_worker_counts_more_than_its_own():
    breakers = Breakers(REGION)
    breakers.update(told(probes=-1, probed_at=10.0))
    breakers.ended(Ending(QUEUE, REGION, (), Probe(succeeded=False, started_at=12.0)))
    breakers.update(told(probes=-4, probed_at=40.0))  # its own report was lost on the way
    assert (judged(breakers).failed, judged(breakers).probed_at) == (4, 40.0)
