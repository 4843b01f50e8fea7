"""Assertions on what was enqueued: `assert_enqueued(task, args=…)`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from msgspec import Struct, json

from mulligan.core.checks import Seconds, seconds
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.job import Job, decode_call
from mulligan.core.page import Selection

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan
    from mulligan.app.task import Task

PAGE = 1000
# How many jobs a message shows, and how long one may be.
MOST_SHOWN = 20
LONGEST_CALL = 200
# The shortest sleep between two looks, and how many there are at most.
SHORTEST, LOOKS = 0.01, 200


class Which(TypedDict, total=False):
    """Which jobs of a task: by their arguments, queue and region."""

    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    queue: str | None
    region: str | None


def assert_enqueued(
    task: "Task[..., Any]",
    *,
    count: int | None = None,
    within: Seconds = 0.0,
    **which: Unpack[Which],
) -> list[Job]:
    """Assert that jobs of the task were enqueued, in whatever state they are; they are returned.

    With `args` the whole call must be this one, together with `kwargs`, however its arguments were
    given; with `kwargs` alone only these arguments are compared; `queue` and `region` are theirs.
    `count` is their exact number, otherwise there must be one at least. They may come `within` so
    many seconds: virtual ones in `app.testing()`. In a coroutine whose own loop enqueues them,
    await `aassert_enqueued`.
    """
    wanted = wanted_of(task, count, **which)
    app = wanted.task.app
    return app.run(lambda: checked(app, wanted, seconds(within)))


async def aassert_enqueued(
    task: "Task[..., Any]",
    *,
    count: int | None = None,
    within: Seconds = 0.0,
    **which: Unpack[Which],
) -> list[Job]:
    """Assert that jobs of the task were enqueued, as `assert_enqueued` does."""
    wanted = wanted_of(task, count, **which)
    return await checked(wanted.task.app, wanted, seconds(within))


def assert_not_enqueued(task: "Task[..., Any]", **which: Unpack[Which]) -> None:
    """Assert that no such job was enqueued."""
    assert_enqueued(task, count=0, **which)


async def aassert_not_enqueued(task: "Task[..., Any]", **which: Unpack[Which]) -> None:
    """Assert that no such job was enqueued."""
    await aassert_enqueued(task, count=0, **which)


class Wanted(Struct, frozen=True):
    """Which jobs of a task are looked for, and how many."""

    task: "Task[..., Any]"
    arguments: Mapping[str, Any]
    whole: bool
    queue: str | None
    region: str | None
    count: int | None
    said: str

    def fits(self, job: Job) -> bool:
        """Whether it is one of them."""
        if job.task != self.task.name or self.queue not in (None, job.queue):
            return False
        if self.region not in (None, job.region):
            return False
        given = arguments_of(self.task, job)
        if given is None or (self.whole and given.keys() != self.arguments.keys()):
            return False
        return all(given.get(name, ...) == value for name, value in self.arguments.items())

    def are(self, found: int) -> bool:
        """Whether it is the right number."""
        return found > 0 if self.count is None else found == self.count


def wanted_of(task: "Task[..., Any]", count: int | None, **which: Unpack[Which]) -> Wanted:
    """What is looked for; refuses arguments that the task does not take."""
    task = getattr(task, "task", task)  # `using` may be given too
    if not hasattr(task, "bind_all"):
        raise InvalidError(
            f"task {task!r} must be a task of an app, such as a function under @app.task"
        )
    for name in which.keys() - Which.__annotations__.keys():
        raise InvalidError(f"{name} is not one of {', '.join(Which.__annotations__)}")
    args, kwargs = which.get("args"), which.get("kwargs")
    if isinstance(args, str | bytes):
        raise InvalidError(
            f"args {args!r} must be a list or tuple; for one argument give ({args!r},)"
        )
    if args is not None:
        bound = task.bind_all(tuple(args), kwargs or {})
    else:
        bound = task.bound_by((), kwargs or {}).bound
    names = list(task.signature.parameters)
    raw = {name_at(names, index): value for index, value in enumerate(bound.raw_args)}
    arguments = {name: json.decode(value) for name, value in (raw | bound.raw_kwargs).items()}
    said = [f"{name}={value!r}" for name, value in which.items() if value is not None]
    words = f" with {', '.join(said)}" if said else ""
    queue, region = which.get("queue"), which.get("region")
    return Wanted(task, arguments, args is not None, queue, region, count, words)


async def checked(app: "Mulligan", wanted: Wanted, within: float) -> list[Job]:
    """The jobs that fit, once their number does; raises if it does not in time."""
    slept, step = 0.0, max(SHORTEST, within / LOOKS)
    while True:
        jobs = await all_jobs(app)
        found = [job for job in jobs if wanted.fits(job)]
        if wanted.are(len(found)):
            return found
        if slept >= within:
            raise AssertionError(message(wanted, jobs, found, within))
        await app.access.sleep(step)
        slept += step


async def all_jobs(app: "Mulligan") -> list[Job]:
    """Every job in the store, oldest first."""
    jobs: list[Job] = []
    after: str | None = None
    while True:
        cursor = after
        page = await app.access.acall(lambda store: store.page(Selection(), PAGE, cursor))  # noqa: B023
        jobs += page.jobs
        after = page.after
        if after is None:
            return sorted(jobs, key=lambda job: job.sequence)


def message(wanted: Wanted, jobs: list[Job], found: list[Job], within: float) -> str:
    """What was wanted, and what was enqueued instead."""
    name = wanted.task.name
    number = {None: "a job", 0: "no job", 1: "1 job"}.get(wanted.count, f"{wanted.count} jobs")
    when = f" within {within:g} s" if within else ""
    lines = [
        f"{number} of task {name}{wanted.said} should have been enqueued{when}; {len(found)} were"
    ]
    same = [job for job in jobs if job.task == name]
    shown = found if wanted.count is not None and len(found) > wanted.count else same
    if shown:
        lines.append(f"jobs of task {name}:")
        lines += [f"  {described(wanted.task, job)}" for job in shown[:MOST_SHOWN]]
        if len(shown) > MOST_SHOWN:
            lines.append(f"  … and {len(shown) - MOST_SHOWN} more")
    others = Counter(job.task for job in jobs if job.task != name)
    if others:
        counted = ", ".join(f"{task} ({number})" for task, number in others.items())
        lines.append(f"jobs of other tasks: {counted}")
    if not jobs:
        lines.append("nothing was enqueued at all")
    return "\n".join(lines)


def described(task: "Task[..., Any]", job: Job) -> str:
    """A job in one line, as the call that it is."""
    given = arguments_of(task, job)
    if given is None:
        call = f"{job.task}(…)"
    else:
        call = f"{job.task}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    if len(call) > LONGEST_CALL:
        call = f"{call[: LONGEST_CALL - 1]}…"
    where = "" if job.region == "*" else f" for {job.region}"
    return f"{call}  {job.status} in queue {job.queue}{where}, id {job.id}"


def arguments_of(task: "Task[..., Any]", job: Job) -> dict[str, Any] | None:
    """The arguments of a job by the names of parameters; None if its body cannot be read."""
    try:
        call = decode_call(job.body)
    except UNREADABLE:
        return None
    names = list(task.signature.parameters)
    by_name = {name_at(names, index): value for index, value in enumerate(call.args)}
    return by_name | call.kwargs


def name_at(names: Sequence[str], index: int) -> str:
    """The name of the parameter at this position, or its number where there are more."""
    return names[index] if index < len(names) else f"number {index + 1}"
