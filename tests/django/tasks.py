"""Tasks of a project of Django's."""

from typing import Any

from mulligan import Delays, Retry
from mulligan.contrib.django.compat import tasks

task: Any = tasks.task
AT_ONCE = Retry(2, Delays((0,)))


@task
def add(one: int, other: int = 1) -> int:
    """Plain."""
    return one + other


@task
def login(user: str, password: str) -> str:
    """Takes a secret."""
    return user if password else ""


@task
async def aadd(one: int, other: int = 1) -> int:
    """A coroutine."""
    return one + other


@task(retry=AT_ONCE)
def fail(message: str) -> None:
    """Fails each time."""
    raise ValueError(message)


@task(retry=AT_ONCE, takes_context=True)
def flaky(context: Any, times: int) -> list[Any]:
    """Fails so many times."""
    if context.attempt <= times:
        raise LookupError(f"attempt {context.attempt}")
    result = context.task_result
    return [result.id, context.attempt, result.status, len(result.errors)]


@task
def not_json() -> Any:
    """Returns what JSON does not have."""
    return object


@task(queue_name="mail", priority=5, unique_key="only", keep=7200)
def mail() -> None:
    """With options of Django's and of ours."""


@task
def users() -> int:
    """Uses the database."""
    from django.contrib.auth.models import User  # noqa: PLC0415 - once Django is set up

    return int(User.objects.count())


@task
async def ausers() -> int:
    """Uses the database in a coroutine."""
    from django.contrib.auth.models import User  # noqa: PLC0415 - once Django is set up

    return int(await User.objects.acount())


@task
def nested() -> str:
    """Enqueues another, and looks at it."""
    result = add.enqueue(5)
    result.refresh()
    return str(result.id)
