"""The policies of a scenario: retry, fetch and budget."""

from typing import get_args

from msgspec.structs import replace

from mulligan.core.budget import RATIO_WINDOW, Budget
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Balanced, Capped, FetchPolicy, Weighted, parse_policy
from mulligan.core.retry import Adaptive, Backoff, Delays, Exponential, Jitter, Retry, Sessions
from mulligan.sim.scenario import Scenario
from mulligan.tables import Table

UNLIMITED = "unlimited"
DEFAULT_CAP = 4
CURVE = ("base", "factor", "max", "jitter")
CLASSES = ("on", "never")
RETRY = ("max_retries", "scope", *CURVE, "attempts", "within", "per", "delays", *CLASSES)


def read_queue(root: Table, retry: Table) -> QueueSettings:
    """The settings of the one queue that is simulated."""
    fetch = root.table("fetch")
    fetch.only("policy", "retry", "cap")
    policy = read_policy(fetch)
    grace = retry.number("grace", 2.0)
    allowance = read_budget(root.table("budget")) if "budget" in root else None
    return fetch.checked("policy", lambda: QueueSettings(policy, allowance, grace))


def read_budget(table: Table) -> Budget:
    """The retry budget, by count or by share."""
    table.only("limit", "per", "ratio")
    limit = table.count("limit", None, least=1) if "limit" in table else None
    ratio = table.number("ratio", most=1.0, above=True) if "ratio" in table else None
    per = table.number("per", RATIO_WINDOW, above=True)
    return table.checked("", lambda: Budget(limit, per, ratio))


def read_policy(fetch: Table) -> FetchPolicy:
    """The fetch policy, by its name and options or as `--policy` takes it."""
    if "policy" not in fetch:
        return Balanced()
    word = fetch.text("policy")
    if word == "weighted":
        share = fetch.number("retry", Weighted().retry)
        return fetch.checked("retry", lambda: Weighted(share))
    if word == "capped":
        return Capped(fetch.count("cap", DEFAULT_CAP, least=1))
    return fetch.checked("policy", lambda: parse_policy(word))


def with_policy(scenario: Scenario, word: str) -> Scenario:
    """The scenario with another fetch policy."""
    own = scenario.queue.policy
    bare: dict[str, FetchPolicy] = {
        "weighted": own if isinstance(own, Weighted) else Weighted(),
        "capped": own if isinstance(own, Capped) else Capped(DEFAULT_CAP),
    }
    policy = bare.get(word) or parse_policy(word)
    return replace(scenario, queue=replace(scenario.queue, policy=policy))


def read_retry(table: Table, default: Retry) -> Retry:
    """A retry policy; missing fields are taken from the default."""
    if not any(name in table for name in RETRY):
        return default
    most = default.max_retries
    if "max_retries" in table:
        given = table.value("max_retries")
        most = None if given == UNLIMITED else table.count("max_retries", None)
    scope = table.text("scope", default.scope)
    backoff = read_backoff(table, default.backoff)
    made = table.checked("scope", lambda: Retry(most, backoff, scope))  # type: ignore[arg-type]
    for name in CLASSES:
        given = table.value(name) if name in table else getattr(default, name)
        made = table.checked(name, lambda: replace(made, **{name: given}))  # noqa: B023 - called now
    return made


def own_retry(table: Table, default: Retry) -> Retry:
    """The entry's own retry policy, if it has one."""
    own = table.table("retry")
    own.only(*RETRY)
    return read_retry(own, default)


def read_backoff(table: Table, default: Backoff) -> Backoff:
    """The backoff: sessions if it has `attempts`, adaptive with `per`, a list with `delays`."""
    if "delays" in table:
        return table.checked("delays", lambda: Delays(tuple(table.items("delays"))))
    said = {name: table.value(name) for name in CURVE if name in table}
    for name in ("base", "factor", "max"):
        if name in said:
            said[name] = table.number(name)
    if "jitter" in said and said["jitter"] not in get_args(Jitter):
        table.refuse(
            "jitter", f"jitter {said['jitter']!r} is not one of {', '.join(get_args(Jitter))}"
        )
    if "attempts" in table or "within" in table:
        if "attempts" in table:
            said["attempts"] = table.count("attempts", None, least=1)
        if "within" in table:
            said["within"] = tuple(table.items("within"))
        return table.checked("within", lambda: Sessions(**said))
    if "per" in table:
        return table.checked("per", lambda: Adaptive(**said, per=table.number("per")))
    if not said:
        return default
    return table.checked("base", lambda: Exponential(**said))
