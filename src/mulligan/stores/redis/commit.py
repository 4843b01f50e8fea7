"""Outcomes, as commit.lua reads them."""

from collections.abc import Sequence
from itertools import groupby

from mulligan.core.lane import Lane
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Later,
    Limited,
    LimitUse,
    Outcome,
    Returned,
    Verdict,
)
from mulligan.stores.redis.connection import Run, Value
from mulligan.stores.redis.enqueue import runs_values
from mulligan.stores.redis.fields import (
    JSON,
    failure_text,
    float_text,
    lane_name,
    spell_limit,
    token_texts,
)


async def commit(run: Run, outcomes: Sequence[Outcome], worker: str) -> list[Verdict]:
    """Write outcomes of jobs that this worker likely holds; the answer names those not written."""
    refused = await run("commit", worker, *commit_values(outcomes))
    verdicts: list[Verdict] = ["written"] * len(outcomes)
    for number, already in zip(refused[::2], refused[1::2], strict=True):
        verdicts[number] = "already" if already else "stale"
    return verdicts


def commit_values(outcomes: Sequence[Outcome]) -> list[Value]:
    """What commit.lua reads after the time and the worker."""
    letters: list[str] = []
    data: list[Value] = []
    for outcome in outcomes:
        if type(outcome) is Done and not outcome.next:
            if outcome.result is None:
                letters.append("d")
            else:
                letters.append("v")
                data.append(outcome.result)
        else:
            letter, *values = outcome_values(outcome)
            letters.append(str(letter))
            data += values
    ids, tokens = zip(*[outcome.lease for outcome in outcomes], strict=True)
    kinds = "".join(f"{letter}{len(list(run))}" for letter, run in groupby(letters))
    once = int(len(set(ids)) == len(ids))
    return [once, len(ids), kinds, uses_text(outcomes), *ids, *token_texts(tokens), *data]


def uses_text(outcomes: Sequence[Outcome]) -> Value:
    """What outcomes say of limits, by their numbers from 1; mostly nothing."""
    uses = [
        (number, *use_values(use))
        for number, outcome in enumerate(outcomes, 1)
        if (use := getattr(outcome, "use", None)) is not None
    ]
    return JSON.encode(uses) if uses else ""


def use_values(use: LimitUse) -> tuple[object, ...]:
    """What an outcome says of limits, names as scripts spell them."""
    spent = [(spell_limit(name), cost) for name, cost in use.spent]
    pauses = [(spell_limit(name), float(seconds)) for name, seconds in use.pauses]
    return spent, pauses, use.retry_after


def outcome_values(outcome: Outcome) -> list[Value]:
    """The letter by which commit.lua knows the kind of outcome, and its values."""
    match outcome:
        case Done(_, result, following, hands_on, _):
            values, kept = runs_values(following), [] if result is None else [result]
            return ["nwop"[bool(kept) + 2 * hands_on], *kept, len(values), *values]
        case Again(_, lane, delay, failure, trail, free, _):
            values = [lane_name(Lane(*lane)), float_text(delay), failure_text(failure), trail]
            return ["f" if free else "a", *values]
        case Later(_, delay, _):
            return ["l", float_text(delay)]
        case Dead(_, failure, following, _):
            values = runs_values(following)
            return ["x", failure_text(failure), len(values), *values]
        case Limited(_, limits, key, trail):
            return ["k", limits or "", key or "", trail]
        case Returned() | Cancelled():
            return ["r"] if isinstance(outcome, Returned) else ["c", outcome.reason]
