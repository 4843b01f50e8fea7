"""Options of jobs, set on a task or for one call."""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, TypedDict, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from mulligan.app.limits import (
    KeyOption,
    LimitsOption,
    check_key,
    check_limits,
    check_unique_key,
    said_by,
    unique_key_text,
)
from mulligan.app.other_words import option_here
from mulligan.core.checks import Seconds, check_name, check_region, check_seconds
from mulligan.core.errors import InvalidError
from mulligan.core.flow import ROOT_LIMIT, Flow
from mulligan.core.job import Body, NewJob, encode
from mulligan.core.lane import ANYWHERE, Priority, PriorityWord, pinned_to, priority_of
from mulligan.core.retry import Retry, encode_retry, is_predicate, preset
from mulligan.core.settings import kept_for
from mulligan.core.stage import Stage
from mulligan.core.unique import check_unique, longest_debounce, throttled_keep

KWARGS = b',"kwargs":'


class Options(TypedDict, total=False):
    """The options of a job, by `using`; those of `task` are the same and more."""

    queue: str
    region: str
    priority: PriorityWord
    retry: Retry | str
    timeout: Seconds | None
    delay: Seconds
    run_after: datetime
    unique_key: KeyOption
    unique_for: Seconds | None
    debounce: Seconds | None
    debounce_max: Seconds | None
    id: str | None
    expires: Seconds | None
    keep: Seconds | None
    limits: LimitsOption
    fairness_key: KeyOption
    pinned: bool


class UsingOptions(Options, total=False):
    """The keywords of `using`: those of jobs, and the connection whose transaction they join."""

    connection: Any


class Placement(Struct, frozen=True, dict=True):
    """Checked options, ready to make jobs from; what their bodies share is encoded once."""

    queue: str = "default"
    region: str | None = None
    priority: int = Priority.NORMAL
    retry: Raw = Raw(encode_retry(Retry()))
    timeout: float | None = None
    delay: float = 0.0
    run_after: datetime | None = None
    unique_key: KeyOption = None
    id: str | None = None
    expires: float | None = None
    limits: LimitsOption = None
    fairness_key: KeyOption = None
    gated: bool = False
    on_dead: Stage | None = None
    sink: Stage | None = None
    given: tuple[str, ...] | None = None
    keep: int | None = None
    unique_for: float | None = None
    debounce: float | None = None
    debounce_max: float | None = None
    pinned: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other, wherever each was set."""
        self._check_delay(self.delay)
        if (
            self.debounce is not None
            or self.unique_for is not None
            or self.debounce_max is not None
        ):
            self._check_unique()

    def stage(self, task: str, *, each: bool = False) -> Stage:
        """A stage of a chain that runs this task; ids, unique keys and times are for first jobs."""
        limits, key = self.said_limits
        return Stage(
            task,
            self.queue,
            self.own_region,
            self.priority,
            self.retry,
            self.timeout,
            self.delay,
            self.expires,
            limits,
            key,
            each,
            self.gated,
            self.on_dead,
            self.sink,
            keep=self.keep,
        )

    def of_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "Placement":
        """Return the options of one call, whose arguments may make up its unique key."""
        if not callable(self.unique_key):
            return self
        key = said_by("unique_key", self.unique_key, args, kwargs)
        return replace(self, unique_key=unique_key_text(key))

    @property
    def own_region(self) -> str | None:
        """The region of its jobs, marked if they are pinned; None if it says none."""
        if not self.pinned:
            return self.region
        if self.region in (None, ANYWHERE):
            raise InvalidError(
                "pinned=True needs the region that the job is never to leave; give region= too"
            )
        return pinned_to(str(self.region))

    @property
    def followers(self) -> list[Stage]:
        """The sink and the task for dead letters, as far as there are."""
        return [stage for stage in (self.sink, self.on_dead) if stage is not None]

    @property
    def fixed_limits(self) -> tuple[str | None, str | None]:
        """Limits and fairness key as far as they are the same for all calls."""
        fixed = [None if callable(value) else value for value in (self.limits, self.fairness_key)]
        return cast("tuple[str | None, str | None]", tuple(fixed))

    @property
    def said_limits(self) -> tuple[str | None, str | None]:
        """Limits and fairness key of a job whose arguments are not known yet."""
        for name, value in (("limits", self.limits), ("fairness_key", self.fairness_key)):
            if callable(value):
                raise InvalidError(
                    f"{name} {value!r} is a function of a call's arguments, which a later stage"
                    f" does not have when it is enqueued; name them: task.using({name}=…)"
                )
        return self.fixed_limits

    def job(
        self,
        job_id: str,
        task: str,
        args: bytes,
        kwargs: bytes,
        limit: int,
        *,
        flow: Flow | None = None,
        limited: tuple[str | None, str | None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> NewJob:
        """The job that these arguments make, if its body is within the limit.

        It is `limited` by these limits and this fairness key, or by those that are the same for
        all calls. `clock` is what `run_after` is compared with.
        """
        if flow is None:
            before, after = self._frames.get(task) or self._frame(task)
            body = b"".join((before, args, KWARGS, kwargs, after))
        else:
            body = self._body(task, args, kwargs, flow)
        if len(job_id) > ROOT_LIMIT and self._followed:
            raise InvalidError(
                f"id {job_id[:40]!r} has {len(job_id)} characters; what follows from a job is named"
                f" after it, so use at most {ROOT_LIMIT} where it has a sink or on_dead"
            )
        if len(body) > limit:
            raise InvalidError(
                f"task {task}: the payload has {len(body)} bytes, more than the {limit} allowed;"
                " store it elsewhere and pass its address, or raise payload_limit"
            )
        delay, debounce_max = self.delay, None
        if self.run_after is not None:
            delay = seconds_until(self.run_after, clock())
            self._check_delay(delay)
        elif self.debounce is not None:
            delay, debounce_max = self.debounce, longest_debounce(self.debounce, self.debounce_max)
        keep = self.keep
        if self.unique_for is not None:
            keep = throttled_keep(keep, self.unique_for)
        limits, fairness_key = self.fixed_limits if limited is None else limited
        return NewJob(
            self.id or job_id,
            self.queue,
            task,
            body,
            self.own_region or ANYWHERE,
            self.priority,
            delay,
            cast("str | None", self.unique_key),  # not a function: `of_call` has called it
            limits,
            fairness_key,
            self.expires,
            keep=keep,
            debounce_max=debounce_max,
            unique_for=self.unique_for,
        )

    def _check_unique(self) -> None:
        check_unique(
            key=cast("str | None", self.unique_key),
            debounce=self.debounce,
            debounce_max=self.debounce_max,
            unique_for=self.unique_for,
            expires=self.expires,
        )
        if self.debounce is None:
            return
        for name, given in (
            ("delay", self.delay),
            ("run_after", self.run_after),
            ("id", self.id),
        ):
            if given:
                raise InvalidError(
                    f"debounce {self.debounce:g} says itself when the job starts, and that jobs of"
                    f" its key are one; take {name}= away"
                )

    def _check_delay(self, delay: float) -> None:
        if self.expires is not None and delay >= self.expires:
            raise InvalidError(
                f"delay {delay:g} is not shorter than expires {self.expires:g}: the job would"
                " always expire; lower the delay"
            )

    @property
    def _followed(self) -> bool:
        return self.sink is not None or self.on_dead is not None

    def _body(self, task: str, args: bytes, kwargs: bytes, flow: Flow | None = None) -> bytes:
        return encode(
            Body(
                task,
                Raw(args),
                Raw(kwargs),
                self.retry,
                self.timeout,
                self.on_dead,
                self.gated,
                self.sink,
                flow,
                named=self.id is not None and (self._followed or flow is not None),
                given=self.given,
            )
        )

    @cached_property
    def _frames(self) -> dict[str, tuple[bytes, bytes]]:
        return {}

    def _frame(self, task: str) -> tuple[bytes, bytes]:
        """The parts of a job's body before and after its arguments."""
        # no JSON text contains this: quotes in texts are escaped
        before, _, after = self._body(task, b"[]", b"{}").partition(b'[],"kwargs":{}')
        self._frames[task] = before, after
        return before, after


def seconds_until(moment: datetime, now: float) -> float:
    """Seconds until then; 0 for a time that has passed."""
    return max(0.0, moment.timestamp() - now)


def check_retry(value: object) -> Raw:
    """The policy, encoded as jobs carry it; a preset may be given by its name."""
    policy = preset(value) if isinstance(value, str) else value
    if not isinstance(policy, Retry):
        raise InvalidError(f"retry {value!r} must be a Retry; for three retries use Retry(3)")
    if is_predicate(policy.on):
        raise InvalidError(
            f"retry on={policy.on!r} is a function, which only workers of its task ask; put it on"
            " the task: @app.task(retry=Retry(on=…)), or name exception classes here"
        )
    return Raw(encode_retry(policy))


def check_pinned(value: object) -> bool:
    """Whether jobs never leave their region."""
    if not isinstance(value, bool):
        raise InvalidError(f"pinned {value!r} must be True or False")
    return value


def check_moment(value: object, name: str = "run_after") -> datetime:
    """A time with a time zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidError(
            f"{name} {value!r} must be a datetime with a time zone;"
            " use datetime.now(UTC) + timedelta(...)"
        )
    return value


def optional(value: Any, check: Callable[[Any], Any]) -> Any:
    """Check the value, unless it is None."""
    return None if value is None else check(value)


CHECKS: dict[str, Callable[[Any], Any]] = {
    "queue": lambda value: check_name("queue", value),
    "region": check_region,
    "priority": priority_of,
    "retry": check_retry,
    "timeout": lambda value: optional(value, lambda v: check_seconds("timeout", v, least=0.001)),
    "delay": lambda value: check_seconds("delay", value),
    "run_after": check_moment,
    "unique_key": check_unique_key,
    "unique_for": lambda value: optional(
        value, lambda v: check_seconds("unique_for", v, least=0.001)
    ),
    "debounce": lambda value: optional(value, lambda v: check_seconds("debounce", v, least=0.001)),
    "debounce_max": lambda value: optional(value, lambda v: check_seconds("debounce_max", v)),
    "id": lambda value: optional(value, lambda v: check_name("id", v)),
    "expires": lambda value: optional(value, lambda v: check_seconds("expires", v, least=0.001)),
    "keep": lambda value: optional(value, kept_for),
    "limits": check_limits,
    "fairness_key": check_key,
    "pinned": check_pinned,
}


def checked(
    options: Options | dict[str, Any], lease: float, besides: Iterable[str] = ()
) -> dict[str, Any]:
    """The options, each checked; refuses unknown ones. An error names `besides` as allowed too.

    A job is kept for a lease at least: a commit that is sent again must find it as it was written.
    """
    for name in options:
        if name not in CHECKS:
            known = [*CHECKS, *besides]
            raise InvalidError(
                f"option {name!r} is not one of {', '.join(known)}{option_here(name, known)}"
            )
    if "delay" in options and "run_after" in options:
        raise InvalidError("give delay or run_after, not both")
    made = {name: CHECKS[name](value) for name, value in options.items()}
    if options.get("keep") is not None:
        made["keep"] = kept_for(options["keep"], lease)
    return made
