"""`settings`: every default and limit, and what it means."""

from typing import Any

import click
from msgspec.structs import asdict

from mulligan.cli.find_app import app_option, json_option, load_app, named_app
from mulligan.cli.show import console, print_json, table
from mulligan.core.budget import RATIO_FLOOR
from mulligan.core.checks import DEPTH_LIMIT, NAME_LIMIT
from mulligan.core.decide import SNOOZE_LIMIT
from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import URGENT_SHARE
from mulligan.core.fetch import policy_text
from mulligan.core.flow import MOST_MEMBERS
from mulligan.core.health import (
    FREE_PROBES,
    LEAST_ATTEMPTS,
    LONGEST_PAUSE,
    PROBES_TO_CLOSE,
    SHORTEST_PAUSE,
    TOLERATED_FAILURE_RATE,
    WINDOW,
)
from mulligan.core.retry import Retry
from mulligan.core.settings import BATCH_LIMIT, HISTORY_LIMIT, TEXT_LIMIT, Settings
from mulligan.engine.fetcher import LONGEST_SLEEP
from mulligan.engine.worker import REAP_EVERY
from mulligan.supervisor.fleet import SERVICE, Kind

MEANINGS = {
    "lease": "seconds without a beat after which a worker's jobs are given to others",
    "beat": "seconds between two beats of a worker",
    "concurrency": "jobs that a worker runs at a time, unless --concurrency says otherwise",
    "drain_timeout": "seconds that a stopping worker waits for its running jobs",
    "keep_done": "seconds that done and cancelled jobs stay stored",
    "payload_limit": "bytes that the arguments of a job may take",
    "result_limit": "bytes that the result of a job may take",
    "abandoned_limit": "plain functions past their timeout at which a worker replaces itself",
    "unknown_task_delay": "seconds until a job whose task its worker does not know is tried again",
    "retry_after_limit": "seconds that a retry waits at most because a Retry-After asks for it",
    "threads": "plain functions that a worker runs at a time; if none, min(32, processors + 4)",
    "pool_size": "child processes of a worker for tasks with pool=process; if none, processors",
    "pool_nice": "by how much child processes are nicer than their worker, as nice(1) has it",
    "hold_through_backoff": "whether a slot stays idle while the job that failed in it waits",
}
QUEUE_MEANINGS = {
    "policy": "what runs next while both retries and fresh jobs wait",
    "budget": "how many retries may start in a window of time",
    "grace": "seconds for which a first retry is left to other regions",
    "weights": "turns of fairness keys for each turn of the others, where they are not 1",
}
RETRY_MEANINGS = {
    "max_retries": "retries after the first attempt",
    "base": "seconds before the first retry, before jitter",
    "factor": "by which the wait grows with each retry",
    "max": "seconds that a wait is at most",
    "jitter": "how waits are spread: none, full or decorrelated",
    "scope": "which regions may take a retry: global or region",
    "on": "exception classes that are retried; if none, all",
    "never": "exception classes that are never retried",
}
FLEET_MEANINGS = {
    "min": "processes of a kind that there are always",
    "max_concurrent": "processes of a kind that there are at most",
    "max_runtime": "seconds after which a process is drained and replaced",
    "max_wait": "seconds that a due job may wait before another process is started",
    "cooldown": "seconds between two starts of a kind",
    "idle_exit": "seconds without work after which a process that is not needed ends",
    "memory_limit": "bytes above which a process is drained and replaced",
    "drain_timeout": "seconds that a process is given to drain",
    "backoff": "seconds before a process that died is started again; doubled each time",
    "backoff_max": "seconds that it is at most",
}
# The defaults of a service that differ from those of other kinds.
SERVICE_ONLY = ("max_runtime", "cooldown")
LIMITS: dict[str, tuple[Any, str]] = {
    "BATCH_LIMIT": (BATCH_LIMIT, "jobs in one operation on a store"),
    "DEPTH_LIMIT": (DEPTH_LIMIT, "levels of lists and objects in an argument or a result"),
    "HISTORY_LIMIT": (HISTORY_LIMIT, "failed attempts that a job remembers, the newest"),
    "TEXT_LIMIT": (TEXT_LIMIT, "characters of a failure's message that are kept"),
    "NAME_LIMIT": (NAME_LIMIT, "characters in the name of a queue, task, region, key or job"),
    "SNOOZE_LIMIT": (SNOOZE_LIMIT, "times that a job may be snoozed"),
    "RATIO_FLOOR": (RATIO_FLOOR, "retries a minute that a budget by ratio always allows"),
    "REAP_EVERY": (REAP_EVERY, "seconds between two looks for the jobs of dead workers"),
    "LONGEST_SLEEP": (LONGEST_SLEEP, "seconds after which an idle worker looks by itself"),
    "WINDOW": (WINDOW, "seconds that count as recent for the health of a region"),
    "LEAST_ATTEMPTS": (LEAST_ATTEMPTS, "recent attempts without which a region counts as reliable"),
    "TOLERATED_FAILURE_RATE": (TOLERATED_FAILURE_RATE, "failure rate above which a breaker opens"),
    "PROBES_TO_CLOSE": (PROBES_TO_CLOSE, "successful probes in a row that close a breaker"),
    "SHORTEST_PAUSE": (SHORTEST_PAUSE, "seconds between two probes of an open breaker"),
    "LONGEST_PAUSE": (
        LONGEST_PAUSE,
        "seconds that this grows to, doubled by each failure",
    ),
    "FREE_PROBES": (FREE_PROBES, "failed probes that use none of a job's retries"),
    "MOST_MEMBERS": (MOST_MEMBERS, "jobs that one other may gather"),
    "URGENT_SHARE": (URGENT_SHARE, "share of starts that urgent jobs get while others wait"),
}


@click.command()
@click.argument("named", metavar="[APP]", required=False)
@app_option
@json_option
def settings(named: str | None, *, as_json: bool, app: str | None) -> None:
    """Print every default and limit, with its meaning.

    With an app, the values that it sets.
    """
    name = named_app(named, app)
    target = load_app(name) if name else None
    worker = target.settings if target else Settings()
    parts = {
        "worker": {n: (getattr(worker, n), text) for n, text in MEANINGS.items()},
        "retry": default_retry(),
        "queue": described(QueueSettings()),
        "fleet": {n: (getattr(Kind(""), n), text) for n, text in FLEET_MEANINGS.items()},
        "service": {n: (getattr(SERVICE, n), FLEET_MEANINGS[n]) for n in SERVICE_ONLY},
        "limit": LIMITS,
    }
    if target is not None:
        parts |= {f"queue {name}": described(queue) for name, queue in target.queues.items()}
    entries = [
        {"of": part, "name": name, "value": value, "meaning": text}
        for part, settings in parts.items()
        for name, (value, text) in settings.items()
    ]
    if as_json:
        print_json({"settings": entries})
        return
    rows = [[e["of"], e["name"], shown(e["value"]), e["meaning"]] for e in entries]
    console().print(table("", ("of", "name", "#value", "~meaning"), rows))


def default_retry() -> dict[str, tuple[Any, str]]:
    """The policy of a task that names none."""
    policy = Retry()
    fields = {**asdict(policy.backoff), **asdict(policy)}
    return {name: (fields[name], text) for name, text in RETRY_MEANINGS.items()}


def described(queue: QueueSettings) -> dict[str, tuple[Any, str]]:
    """The settings of a queue as JSON can carry them."""
    budget = queue.budget
    said = {
        "policy": policy_text(queue.policy),
        "budget": None
        if budget is None
        else {n: getattr(budget, n) for n in ("limit", "per", "ratio")},
        "grace": queue.grace_seconds,
        "weights": dict(queue.weights),
    }
    return {name: (said[name], text) for name, text in QUEUE_MEANINGS.items()}


def shown(value: Any) -> Any:
    """A value for the table."""
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
