"""The attributes of spans and metrics, by the semantic conventions for messaging.

What only mulligan has is in the namespace `messaging.mulligan`, as the conventions ask.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from mulligan.core.job import Claim, NewJob
from mulligan.core.outcome import Again, Dead, Later, Outcome

# The version of the conventions that is followed.
SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
OWN = "messaging.mulligan."
CUT_OFF = "cut off"
Attributes = dict[str, Any]


def operation(name: str, kind: str, queues: Iterable[str]) -> Attributes:
    """What is done, and to which queue; with several queues none is named."""
    found = {
        "messaging.system": "mulligan",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    named = set(queues)
    return found | {"messaging.destination.name": named.pop()} if len(named) == 1 else found


def about_job(job: NewJob) -> Attributes:
    """The attributes of a span about one job that is enqueued."""
    return {
        "messaging.message.id": job.id,
        f"{OWN}task": job.task,
        f"{OWN}region": job.region,
    }


def about_attempt(claim: Claim) -> Attributes:
    """The attributes of the span of an attempt at its start."""
    return {
        **operation("process", "process", [claim.queue]),
        "messaging.message.id": claim.id,
        "messaging.client.id": claim.worker,
        f"{OWN}task": claim.task,
        f"{OWN}region": claim.worker_region,
        f"{OWN}original_region": claim.region,
        f"{OWN}lane": claim.lane.label,
        f"{OWN}attempt": claim.attempt,
        f"{OWN}replay": claim.replay,
    }


def ended_as(outcome: Outcome) -> Attributes:
    """The attributes of the span of an attempt at its end: what becomes of the job, and when."""
    match outcome:
        case Again():
            return {f"{OWN}outcome": "retry", f"{OWN}delay": outcome.delay}
        case Later():
            return {f"{OWN}outcome": "later", f"{OWN}delay": outcome.delay}
        case Dead():
            return {f"{OWN}outcome": "failed"}
        case _:
            return {f"{OWN}outcome": type(outcome).__name__.lower()}


def server_attributes(url: str) -> Attributes:
    """The address of the store's server; empty if it has none, or several."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # several hosts, with a port each
        return {}
    if not host or "," in host or parts.scheme == "memory":
        return {}
    return {"server.address": host} | ({} if port is None else {"server.port": port})


def type_of(error: BaseException) -> str:
    """The class of an error, as `error.type` names it."""
    made = type(error)
    plain = made.__module__ in ("builtins", "__main__")
    return made.__qualname__ if plain else f"{made.__module__}.{made.__qualname__}"


def measured(attributes: Mapping[str, Any]) -> Attributes:
    """Those of a span's attributes that take few values, for metrics."""
    return {name: attributes[name] for name in FEW if name in attributes}


FEW = (
    "messaging.system",
    "messaging.operation.name",
    "messaging.operation.type",
    "messaging.destination.name",
    "server.address",
    "server.port",
    "error.type",
    f"{OWN}task",
    f"{OWN}region",
    f"{OWN}outcome",
)
