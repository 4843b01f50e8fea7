"""Shares of kinds of work, kept in each shard by itself."""

import pytest

from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.fetch import Weighted
from mulligan.core.job import Claim
from mulligan.core.lane import Priority
from mulligan.core.plan import ONE
from mulligan.core.shard_turns import ShardShares

KINDS = ("urgent", "retry", "fresh")
PRIORITIES = {"urgent": Priority.URGENT, "retry": Priority.RETRY, "fresh": Priority.NORMAL}
FACTS = Facts(1, {"mail": QueueSettings(Weighted(0.25))})


def plan(demand, carry=0):
    return plan_claim(demand, "US", [("mail", Carry(carry, carry))], FACTS)


def claim(kind):
    return Claim("j", 1, "mail", "t", b"", "*", 0, "*", PRIORITIES[kind], 0, 0, 0, 0, "w", "US", 0)


def given(made, standing):
    """What a shard gives by the plan, where so many of each kind stand."""
    taken = [0, 0, 0]
    for step in made.steps:
        room = min(step.room(taken, made.demand), standing[step.group] - taken[step.group])
        taken[step.group] += max(0, room)
    return taken


@pytest.mark.parametrize("demand", [1, 2, 3, 7])
def test_each_shard_keeps_the_shares_whatever_the_worker_took_from_others(demand):
    shares, total = ShardShares(), [0, 0, 0]
    for _ in range(40):
        made = shares.fitted(plan(demand))
        taken = given(made, [0, 100, 100])
        shares.settle(made, [claim(KINDS[g]) for g in range(3) for _ in range(taken[g])],
                      (False, True, True))  # fmt: skip
        total = [one + other for one, other in zip(total, taken, strict=True)]
        assert abs(total[1] - sum(total) / 4) <= 1


def test_urgent_work_has_its_share_and_leaves_the_others_theirs():
    shares, total = ShardShares(), [0, 0, 0]
    for _ in range(100):
        made = shares.fitted(plan(1))
        taken = given(made, [9, 9, 0])
        shares.settle(made, [claim(KINDS[taken.index(1)])], (True, True, False))
        total = [one + other for one, other in zip(total, taken, strict=True)]
    assert abs(total[0] - 80) <= 1


def test_nothing_is_saved_up_while_only_one_kind_waits():
    shares = ShardShares()
    for left in ((False, False, True), (False, False, False)):
        shares.settle(plan(3), [claim("fresh")] * 3, left)
    made = plan(3, ONE - 1)
    assert shares.fitted(made) is made
