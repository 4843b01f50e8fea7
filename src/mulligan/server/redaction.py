"""Hides secrets in what readers see of jobs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from mulligan.app import Task
from mulligan.app.arguments import Parameter
from mulligan.core.checks import DEPTH_LIMIT
from mulligan.core.errors import UNREADABLE
from mulligan.core.fields import JOB, fields_of
from mulligan.core.job import Attempt, Job
from mulligan.core.limits import costs_of
from mulligan.core.redaction import HIDDEN, Redactor
from mulligan.server.shapes.jobs import AttemptView, JobView

FIELDS = tuple(name for name in JobView.__struct_fields__ if name not in ("body", "result", "lane"))
# A name as headers, options and variables have it, and the keys under which one stands by a value.
NAME = re.compile(r"[\w.-]{1,64}[=:]?")
NAMING = ("name", "Name", "key", "Key")
FREE_TEXTS = tuple(field.name for field in fields_of(JOB) if field.free_text)


class Redaction:
    """Hides values under secret names, and secrets in every text."""

    def __init__(
        self,
        more: Iterable[str | re.Pattern[str]] = (),
        tasks: Mapping[str, Task[..., Any]] | None = None,
    ) -> None:
        redactor = Redactor(more)
        self._is_secret = redactor.is_secret
        self.text = redactor.text
        self._tasks = tasks or {}

    def job(self, job: Job) -> JobView:
        """The job, with its body and result decoded and without secrets."""
        fields = {name: getattr(job, name) for name in FIELDS}
        fields["lane"] = job.lane.label
        fields["limits"] = dict(costs_of(job.limits))
        fields["body"] = self._body(job)
        fields["result"] = None if job.result is None else self.value(decoded(job.result))
        for name in FREE_TEXTS:
            if fields[name] is not None:
                fields[name] = self.text(fields[name])
        return JobView(**fields)

    def attempt(self, attempt: Attempt) -> AttemptView:
        """A failed attempt without secrets; a refused result in it is text."""
        fields = asdict(attempt)
        for name in ("message", "code", "refused", "traceback"):
            if fields[name] is not None:
                fields[name] = self.text(fields[name])
        return AttemptView(**fields)

    def parameter(self, parameter: Parameter) -> Parameter:
        """A parameter of a task without a default that is secret."""
        if parameter.default is UNSET:
            return parameter
        secret = self._is_secret(parameter.name)
        return replace(parameter, default=HIDDEN if secret else self.value(parameter.default))

    def value(self, value: Any) -> Any:
        """A JSON value in which values under secret names, and secrets in texts, are hidden."""
        return self._without(value, self._is_secret)

    def texts(self, value: Any) -> Any:
        """A document of our own in which only secrets in texts are hidden."""
        return self._without(value, lambda _name: False)

    def _without(self, value: Any, is_secret: Callable[[str], bool], depth: int = 0) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if depth > DEPTH_LIMIT:
            return "…"
        if isinstance(value, list | tuple):
            named = (False, *(is_name(each) and is_secret(each) for each in value))
            return [
                HIDDEN if after_name else self._without(each, is_secret, depth + 1)
                for each, after_name in zip(value, named, strict=False)
            ]
        if isinstance(value, dict):
            named_inside = any(is_name(value.get(k)) and is_secret(value[k]) for k in NAMING)
            return {
                self.text(name): HIDDEN
                if is_secret(name) or (named_inside and name.lower() == "value")
                else self._without(inner, is_secret, depth + 1)
                for name, inner in value.items()
            }
        return value

    def call(
        self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a job without secrets: by the names of parameters, if they are known."""
        names = list(self._tasks[task].signature.parameters) if task in self._tasks else []
        shown = self.value({"args": args, "kwargs": kwargs})
        hidden = [
            HIDDEN if name and self._is_secret(name) else value
            for name, value in zip_longest(names[: len(args)], shown["args"])
        ]
        return hidden, shown["kwargs"]

    def _body(self, job: Job) -> Any:
        body = decoded(job.body)
        shown = self.value(body)
        if isinstance(shown, dict):
            for each in (shown | {"task": job.task}, *stages_in(shown)):
                self._hide_args(each)
        return shown

    def _hide_args(self, called: dict[str, Any]) -> None:
        if isinstance(called.get("args"), list) and isinstance(called.get("task"), str):
            called["args"][:] = self.call(called["task"], called["args"], {})[0]


def is_name(value: Any) -> bool:
    """Whether a value in a list may be the name of the next: --password, or x-api-key."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def stages_in(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The stages that a body names: what follows from its job, with arguments of their own."""
    flow = body.get("flow")
    then = flow.get("then") if isinstance(flow, dict) else None
    for each in (body.get("sink"), body.get("on_dead"), *(then if isinstance(then, list) else ())):
        if isinstance(each, dict):
            yield each
            yield from stages_in(each)


def decoded(data: bytes) -> Any:
    """JSON as values; what is not JSON as text."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return data.decode("utf-8", "replace")
