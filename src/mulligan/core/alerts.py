"""The alerts of the command line and the API."""

from mulligan.core.checks import span
from mulligan.core.facts import Facts
from mulligan.core.health import PROBES_TO_CLOSE, WINDOW, Health
from mulligan.core.held_up import NOTHING_HELD_UP, HeldUp
from mulligan.core.settings import AN_APP
from mulligan.core.stats import Stats
from mulligan.core.status import is_global_retry
from mulligan.core.unserved import unserved

# Global retries pile up where more of them wait than run, and more than these.
GLOBAL_DEPTH_LIMIT = 10
RETRY_WAIT_LIMIT = 30.0


def alerts(
    snapshot: Stats, facts: Facts, app: str = AN_APP, held_up: HeldUp = NOTHING_HELD_UP
) -> list[str]:
    """What an operator should look at now, one sentence each; `app` is its name in commands.

    Retries that wait for a limit that is paused do not count as late.
    """
    said = [f"{each.sentence}; {each.remedy(app)}" for each in unserved(snapshot, facts)]
    startable = held_up.startable(snapshot.lanes)
    waiting = [count for count in startable if count.lane.is_retry and count.ready]
    depth = sum(count.ready for count in waiting if is_global_retry(count.lane))
    running = sum(snapshot.running.values())
    if depth > max(GLOBAL_DEPTH_LIMIT, running):
        than = (
            f"the {running} jobs that run" if running > GLOBAL_DEPTH_LIMIT else GLOBAL_DEPTH_LIMIT
        )
        said.append(f"{depth} global retries wait, more than {than}")
    oldest = {(count.lane.queue, count.lane.label): snapshot.now for count in waiting}
    for count in waiting:
        key = count.lane.queue, count.lane.label
        oldest[key] = min(oldest[key], count.oldest_due)
    for (queue, lane), due in oldest.items():
        wait = snapshot.now - due
        if wait > RETRY_WAIT_LIMIT:
            said.append(
                f"a retry of queue {queue} has waited {span(wait)} in lane"
                f" {lane}, longer than {span(RETRY_WAIT_LIMIT)}"
            )
    for (queue, region), health in sorted(facts.health.items()):
        running = snapshot.running.get((queue, region), 0)
        if is_failing(health, snapshot.now, running) and facts.serves(queue, region):
            open_for = snapshot.now - health.breaker.since
            said.append(
                f"the breaker of queue {queue} in region {region} has been open for"
                f" {span(open_for)}, {health.breaker.succeeded} of {PROBES_TO_CLOSE} probes"
            )
    return said


def is_failing(health: Health, now: float, running: int) -> bool:
    """Whether the breaker is open and an attempt failed recently, or may fail soon.

    While there are jobs to try, probes are at most half a minute apart. So if none failed for a
    minute and none runs, nothing fails there any more.
    """
    breaker = health.breaker
    return breaker.open and (health.failed > 0 or running > 0 or now - breaker.since < WINDOW)
