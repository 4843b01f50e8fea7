"""What readers see of jobs: all but secrets."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from mulligan.app import Task
from mulligan.app.arguments import DEPTH_LIMIT
from mulligan.core.errors import UNREADABLE
from mulligan.core.job import Attempt, Job
from mulligan.server.problems import without_passwords
from mulligan.server.shapes.jobs import AttemptView, JobView

HIDDEN = "***"
HIDING = (
    r"passw(or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|authorization|cookie|credential|dsn"
)
FIELDS = tuple(name for name in JobView.__struct_fields__ if name not in ("body", "result", "lane"))


class Redaction:
    """Hides values by the names they are under, here and in everything below."""

    def __init__(
        self, words: Iterable[str] = (), tasks: Mapping[str, Task[..., Any]] | None = None
    ) -> None:
        names = HIDING + "".join(f"|{re.escape(word)}" for word in words)
        self._secret = re.compile(names, re.IGNORECASE).search
        # "password": "x" and password=x, as they stand in messages and cut-off JSON
        self._said = re.compile(
            rf"""(?i)((?:{names})[\w-]*(?:"\s*:\s*|=))("[^"]*"?|'[^']*'?|[^\s,;&}}\]]+)"""
        )
        self._tasks = tasks or {}

    def job(self, job: Job) -> JobView:
        """The job, its body and result decoded and without secrets."""
        fields = {name: getattr(job, name) for name in FIELDS}
        fields["lane"] = job.lane.label
        fields["body"] = self._body(job)
        fields["result"] = None if job.result is None else self.value(decoded(job.result))
        for name in ("last_failure_reason", "cancel_reason"):
            if fields[name] is not None:
                fields[name] = self.text(fields[name])
        return JobView(**fields)

    def attempt(self, attempt: Attempt) -> AttemptView:
        """A failed attempt; a refused result in it is text."""
        fields = asdict(attempt)
        fields["message"] = self.text(attempt.message)
        if attempt.refused is not None:
            fields["refused"] = self.text(attempt.refused)
        return AttemptView(**fields)

    def text(self, text: str) -> str:
        """A message without the secrets that can be told by the names before them."""
        return self._said.sub(rf"\1{HIDDEN}", without_passwords(text))

    def value(self, value: Any, depth: int = 0) -> Any:
        """A JSON value with everything under a secret's name hidden."""
        if isinstance(value, str):
            return without_passwords(value)
        if depth > DEPTH_LIMIT:
            return "…"
        if isinstance(value, list):
            return [self.value(each, depth + 1) for each in value]
        if isinstance(value, dict):
            return {
                name: HIDDEN if self._secret(name) else self.value(inner, depth + 1)
                for name, inner in value.items()
            }
        return value

    def _body(self, job: Job) -> Any:
        body = decoded(job.body)
        shown = self.value(body)
        task = self._tasks.get(job.task)
        if task is not None and isinstance(shown, dict) and isinstance(shown.get("args"), list):
            shown["args"] = self._positional(task, shown["args"])
        return shown

    def _positional(self, task: Task[..., Any], args: Sequence[Any]) -> list[Any]:
        names = list(inspect.signature(task.function).parameters)
        names += [""] * (len(args) - len(names))
        return [
            HIDDEN if name and self._secret(name) else value
            for name, value in zip(names, args, strict=False)
        ]


def decoded(data: bytes) -> Any:
    """JSON as values; what is not JSON as text."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return data.decode("utf-8", "replace")
