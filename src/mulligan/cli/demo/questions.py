"""The questions of the demo: who asks them, in which region, and when. Always the same."""

import random
from typing import NamedTuple

from mulligan.cli.demo.app import ask
from mulligan.core.job import NewJob

REGIONS = ("US", "EU", "ASIA")
TENANTS = ("acme", "birch", "cobalt", "delta")
VICTIM = "EU"
WAVES = ((0.0, 0.3), (0.15, 0.15), (0.3, 0.15), (0.45, 0.15), (0.65, 0.15), (0.8, 0.1))
POISON = "delta-q13"
# Seconds that an answer takes in a demo of the usual length.
SHORTEST, LONGEST = 0.06, 0.24
# Long enough to be running when its worker is killed.
HELD_SECONDS = 30.0


class Wave(NamedTuple):
    """Questions that arrive together, at this share of the demo's time."""

    at: float
    jobs: list[NewJob]


def waves(count: int, seed: int, pace: float) -> list[Wave]:
    """The questions in order of arrival; one of them has no answer.

    `pace` stretches how long answers take.
    """
    chance = random.Random(seed)
    jobs = [question(number, pace, chance) for number in range(count - 1)]
    jobs.insert(min(12, count - 1), job(POISON, "", "US", SHORTEST))
    made, start = [], 0
    for at, share in WAVES:
        end = start + round(share * count) if at != WAVES[-1][0] else count
        made.append(Wave(at, jobs[start:end]))
        start = end
    return made


def question(number: int, pace: float, chance: random.Random) -> NewJob:
    """One question of one tenant in one region."""
    tenant, region = TENANTS[number % len(TENANTS)], REGIONS[number % len(REGIONS)]
    seconds = round(pace * chance.uniform(SHORTEST, LONGEST), 3)
    return job(f"{tenant}-q{number + 100}", "Is it so?", region, seconds)


def held() -> NewJob:
    """The question that the killed worker will hold."""
    call = ask.using(id="birch-long", region=VICTIM, priority="urgent")
    return call.call("Is it worth the wait?", HELD_SECONDS).job


def job(job_id: str, text: str, region: str, seconds: float) -> NewJob:
    """A question as a job."""
    return ask.using(id=job_id, region=region).call(text, seconds).job
