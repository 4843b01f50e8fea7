"""A task of Django's with the options that Django leaves open: `@task(retry=…, timeout=…)`."""

from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass, replace
from typing import Any

from mulligan.app.decorator import TaskOptions
from mulligan.app.options import Options
from mulligan.contrib.django.compat import InvalidTask, base
from mulligan.core.lane import PriorityWord

# Django has words of its own for these, or they need a task of mulligan's.
DJANGO_SAYS = frozenset({"name", "queue", "priority", "run_after", "delay", "sink"})
OURS = tuple(name for name in TaskOptions.__annotations__ if name not in DJANGO_SAYS)
# Those that one call may have: `task.using(unique_key=…)`.
OF_A_CALL = frozenset(Options.__annotations__) & set(OURS)


def using(self: Any, **changes: Any) -> Any:
    """The task with other options: Django's, and those of ours that a single call may have."""
    django = {each.name for each in fields(base.Task)} - {"func", "takes_context"}
    for name in changes:
        if name in OURS and name not in OF_A_CALL:
            raise InvalidTask(
                f"{name} is an option of the task, @task({name}=...), and not of a call; those of a"
                f" call are {', '.join(sorted(OF_A_CALL))}"
            )
        if name not in OF_A_CALL | django:
            raise InvalidTask(
                f"option {name!r} is not one of {', '.join(sorted(OF_A_CALL | django))}"
            )
    return replace(self, **{name: value for name, value in changes.items() if value is not None})


def call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The call as a value, for `put` of the schedules of its backend's app."""
    return self.get_backend().call(self, args, kwargs)


# Made from the table of options, so that there is one.
Task: Any = make_dataclass(
    "Task",
    [(name, Any, field(default=None)) for name in OURS],
    bases=(base.Task,),
    namespace={"using": using, "call": call, "__module__": __name__},
    frozen=True,
    slots=True,
    kw_only=True,
)


def options_of(task: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Which of our options the task has, or else its backend."""
    said = {name: getattr(task, name, None) for name in OURS}
    return {**defaults, **{name: value for name, value in said.items() if value is not None}}


def priority_of(task: Any) -> PriorityWord:
    """The priority of its jobs: Django has many, of which those above 0 are urgent."""
    return "urgent" if task.priority > 0 else "normal"
