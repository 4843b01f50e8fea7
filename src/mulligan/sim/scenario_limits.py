"""Reads limits, providers, weights, and what jobs need of them, from a scenario."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.facts import QueueSettings
from mulligan.core.limits import (
    LONGEST_PER,
    MOST_COST,
    MOST_RATE,
    Limit,
    check_costs,
    check_fits,
    check_limit_name,
    costs_of,
    costs_text,
    covering,
)
from mulligan.sim.provider import Provider
from mulligan.sim.scenario import Needs
from mulligan.tables import Table

NEEDS = ("limits", "fairness_key", "provider")


def read_limits(root: Table) -> dict[str, Limit]:
    """[limits.NAME]: as `app.limit` takes them."""
    tables = root.table("limits")
    return {name: read_limit(tables, name) for name in tables.names()}


def read_limit(tables: Table, name: str) -> Limit:
    """One limit."""
    table = tables.table(name)
    table.only("concurrency", "rate", "per", "burst", "pause_on_retry_after")
    tables.checked(name, lambda: check_limit_name(name))

    def whole(field: str, most: int) -> int | None:
        return table.count(field, None, least=1, most=most) if field in table else None

    per = table.number("per", 1.0, least=0.001, most=LONGEST_PER)
    numbers = whole("concurrency", MOST_COST), whole("rate", MOST_RATE)
    burst, pause = whole("burst", MOST_RATE), table.flag("pause_on_retry_after")
    return tables.checked(name, lambda: Limit(*numbers, per, burst, pause))


def read_providers(root: Table) -> tuple[Provider, ...]:
    """[providers.NAME]: rate and per, beyond which it answers 429."""
    tables = root.table("providers")
    found = []
    for name in tables.names():
        table = tables.table(name)
        table.only("rate", "per", "refuse_after")
        rate = table.count("rate", None, least=1, most=MOST_RATE)
        per = table.number("per", 1.0, above=True)
        found.append(Provider(name, rate, per, table.number("refuse_after", 0.05)))
    return tuple(found)


def with_weights(root: Table, queue: QueueSettings) -> QueueSettings:
    """The settings of the queue, with [weights] of fairness keys."""
    table = root.table("weights")
    weights = tuple(sorted((name, table.number(name, above=True)) for name in table.names()))
    return root.checked("weights", lambda: replace(queue, weights=weights)) if weights else queue


def read_needs(table: Table) -> Needs:
    """The limits, fairness key and provider of jobs."""
    limits = None
    if "limits" in table:
        limits = table.checked("limits", lambda: read_costs(table.value("limits")))
    key = table.text("fairness_key") if "fairness_key" in table else None
    if key is not None:
        table.checked("fairness_key", lambda: check_name("fairness_key", key))
    return Needs(limits, key, table.text("provider") if "provider" in table else None)


def read_costs(said: Any) -> str | None:
    """A name, several, or costs by name, as stores keep them."""
    names = [said] if isinstance(said, str) else said
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return costs_text(check_costs(dict.fromkeys(names, 1)))
    if isinstance(names, dict):
        return costs_text(check_costs(names))
    raise InvalidError(f"limits {said!r} must be a name, a list of names, or costs by name")


def check_needs(root: Table, limits: Mapping[str, Limit], providers: set[str]) -> None:
    """Refuse jobs that name a limit or a provider which the scenario does not have."""
    for table in [*root.tables("jobs"), *root.tables("streams")]:
        needs = read_needs(table)
        for name, cost in costs_of(needs.limits):
            by = covering(name, limits)
            if by is None:
                table.refuse("limits", f"limit {name!r} is not declared; add [limits.{name}]")
            table.checked("limits", partial(check_fits, name, cost, limits[by]))
        if needs.provider is not None and needs.provider not in providers:
            known = ", ".join(sorted(providers)) or "none"
            table.refuse("provider", f"provider {needs.provider!r} is not one of {known}")
