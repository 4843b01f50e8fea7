"""Starts are counted by the limits that an app declares, within a bound."""

from mulligan import Mulligan
from mulligan.app.overview import measure
from mulligan.core.counts import LIMIT_STARTED
from mulligan.engine import bounded_counts
from mulligan.engine.bounded_counts import LimitNames


def counted(names, *limits):
    """The names under which starts are counted."""
    return [each.removeprefix(LIMIT_STARTED) for text in limits for each in names.counts(text)]


def test_the_names_of_a_family_are_counted_under_its_pattern():
    names = LimitNames(["openai", "tenant:*"])
    assert counted(names, '{"openai":1,"tenant:a":1}', '{"tenant:b":3}') == [
        "openai",
        "tenant:*",
        "tenant:*",
    ]


def test_names_that_no_limit_covers_have_a_bound(monkeypatch):
    monkeypatch.setattr(bounded_counts, "MOST_COUNTED_LIMITS", 2)
    names = LimitNames()
    assert counted(names, *(f'{{"{name}":1}}' for name in "abcab")) == [
        *("a", "b", "(other)", "a", "b"),
    ]


async def test_every_attempt_of_a_limit_is_measured():
    app = Mulligan("memory://")
    app.limit("openai", rate=100)
    app.limit("tenant:*", concurrency=5)

    @app.task(limits=lambda tenant: {"openai": 1, f"tenant:{tenant}": 1})
    async def ask(tenant: str) -> None:
        pass

    @app.task
    async def free() -> None:
        pass

    async with app.testing(regions=["EU"]) as t:
        await app.aenqueue_many([ask.call("a"), ask.call("b"), free.call()])
        await t.aadvance(5)
        found = {each.name: each for each in await app.access.acall(measure)}
    metric = found["mulligan_limit_starts_total"]
    assert metric.kind == "counter"
    assert [(each.labels["limit"], each.value) for each in metric.samples] == [
        *(("openai", 2), ("tenant:*", 2)),
    ]
