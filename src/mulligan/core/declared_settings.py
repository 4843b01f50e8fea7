"""What apps declare for a whole store: two apps that differ overwrite each other's settings."""

from collections.abc import Iterable, Mapping

from mulligan.core.checks import exact_span, seconds
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import policy_text
from mulligan.core.known_tasks import Registration, digest
from mulligan.core.limits import Limit

# Characters; a longer list of weights is told apart by a digest.
LONGEST = 200


def declared_settings(
    queues: Mapping[str, QueueSettings], limits: Mapping[str, Limit]
) -> dict[str, str]:
    """Every declared setting by its name, such as "policy of queue mail", as text."""
    found: dict[str, str] = {}
    for queue, settings in queues.items():
        of = f"of queue {queue}"
        found[f"policy {of}"] = policy_text(settings.policy)
        found[f"retry budget {of}"] = budget_text(settings)
        found[f"grace {of}"] = exact_span(settings.grace_seconds)
        found[f"weights {of}"] = weights_text(settings)
    for name, limit in limits.items():
        pauses = ", paused by Retry-After" if limit.pause_on_retry_after else ""
        found[f"limit {name}"] = f"{limit}{pauses}"
    return found


def budget_text(settings: QueueSettings) -> str:
    """The retry budget in words."""
    budget = settings.budget
    if budget is None:
        return "none"
    if budget.ratio is not None:
        return f"{budget.ratio:g} of fresh starts"
    return f"{budget.limit} per {exact_span(seconds(budget.per))}"


def weights_text(settings: QueueSettings) -> str:
    """The weights of fairness keys; of many there is a digest."""
    weights = sorted(settings.weights)
    text = ", ".join(f"{key}={weight:g}" for key, weight in weights) or "none"
    return text if len(text) <= LONGEST else f"{len(weights)} ({digest(text.encode())})"


def disputes(known: Iterable[Registration], now: float) -> list[str]:
    """Settings that live workers of a store declare differently."""
    live = sorted((each for each in known if each.is_live(now)), key=lambda each: each.worker)
    first: dict[str, Registration] = {}
    said: dict[str, str] = {}
    for each in live:
        for name, value in each.settings.items():
            other = first.setdefault(name, each)
            if other.settings[name] != value:
                said.setdefault(
                    name,
                    f"{name} is {other.settings[name]} to worker {other.worker} and {value} to"
                    f" worker {each.worker}, and the one that starts last sets it for both; declare"
                    " it alike in both apps, or in one of them, unless it is a newer release",
                )
    return [said[name] for name in sorted(said)]
