"""The guides from other queues name only what is here, and spell it so."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import mulligan
from mulligan.app.decorator import TaskOptions
from mulligan.app.handle import JobHandle
from mulligan.app.mulligan import Mulligan
from mulligan.app.schedules import Schedules
from mulligan.app.task import PlainTask
from mulligan.cli import cli
from mulligan.core.event import EVENTS
from mulligan.core.settings import Settings
from mulligan.engine.current import CurrentJob
from mulligan.supervisor.fleet_file import OF_WORKER, TOP

ROOT = Path(__file__).parents[1]
GUIDES = sorted(ROOT.glob("docs/howto/from-*.md"))
GUIDES = [guide for guide in GUIDES if "## Word by word" in guide.read_text()]
# what the guides call things of ours
OWNERS: dict[str, type] = {"app": Mulligan, "job": JobHandle}
TASKS = {"task", "other", "a", "b", "f"}


def said(guide: Path) -> Iterator[str]:
    """Each piece of code in the right column of the guide's table."""
    table = guide.read_text().partition("## Word by word")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| .*\|$", table, re.MULTILINE)[1:]:
        cells = re.split(r"(?<!\\)\|", row.strip("| "))
        yield from (code.replace("\\|", "|") for code in re.findall(r"`([^`]+)`", cells[-1]))


SAID = [(guide.stem, code) for guide in GUIDES for code in said(guide)]
OPTIONS = {
    *TaskOptions.__annotations__,
    *inspect.signature(Mulligan).parameters,
    *inspect.signature(Mulligan.limit).parameters,
    *inspect.signature(Mulligan.gather).parameters,
    *inspect.signature(mulligan.Retry).parameters,
    *inspect.signature(mulligan.RetryAfter).parameters,
    *inspect.signature(mulligan.Exponential).parameters,
}


def test_there_are_six_guides_with_tables():
    assert len(GUIDES) == 6
    assert len(SAID) > 200


@pytest.mark.parametrize(("guide", "code"), SAID)
def test_what_a_guide_maps_to_exists(guide, code):
    assert exists(code), f"{guide}: {code}"


@pytest.mark.parametrize(
    "code",
    [
        *("mulligan purge", "mulligan worker --autoscale", "--autoscale", "task.delay(x)"),
        *("job.revoke()", "Retry(5, times=3)", "retries=", "raise Reject('no')", "app.chord(x)"),
        *("task.using(countdown=3)", "@app.task(crontab='0 6 * * *')", "keep_results", "/jobz"),
        *(
            "app.on('cancel')",
            "current_job().retries",
            "mulligan dead retry",
            "Mulligan(url, hard_timeout=3)",
        ),
    ],
)
def test_what_does_not_exist_would_be_noticed(code):
    assert not exists(code)


def exists(code: str) -> bool:
    """Whether a piece of code names only what is here."""
    if code.startswith("mulligan "):
        return is_command(shlex.split(code)[1:])
    if code.startswith("-"):
        return is_command(["worker", "tasks:app", *shlex.split(code)])
    if code.startswith("/"):
        return code in (ROOT / "docs/reference/server.md").read_text()
    if re.fullmatch(r"\.?\w+=?", code):
        return is_word(code.strip(".="))
    code = code.removeprefix("@").replace("…", "...")
    code = re.sub(r"^(using|\.enqueue)\(", r"task.\1(", code).replace("..enqueue", ".enqueue")
    if code.startswith("async with") and ":" not in code:
        code += ": pass"
    try:
        tree = ast.parse(f"async def said():\n {code}")
    except SyntaxError:
        return False
    return all(is_ours(node) for node in ast.walk(tree))


def is_command(words: list[str]) -> bool:
    """Whether the command line has this command, and it these options."""
    command: click.Command | None = cli
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0)) if words else None
        if command is not None and not words:
            return True
    known = {word for option in command.params for word in option.opts} if command else set()
    return command is not None and {word for word in words if word[0] == "-"} <= known


def is_word(word: str) -> bool:
    """Whether this is an option, a setting, a method, or a name that the package exports."""
    places: list[Any] = [mulligan, Mulligan, JobHandle, CurrentJob, PlainTask]
    words = {*OPTIONS, *Settings.__struct_fields__, *CurrentJob.__struct_fields__}
    words |= {*TOP, *OF_WORKER, "mulligan_app", "mulligan_test", "logging"}
    return word in words or any(hasattr(place, word) for place in places)


def is_ours(node: ast.AST) -> bool:
    """Whether a call or an attribute is one of ours, with parameters that it has."""
    match node:
        case ast.Attribute(value=owner, attr=attr):
            owned = owner_of(owner)
            return owned is None or hasattr(owned, attr)
        case ast.Call(func=ast.Attribute(attr="on"), args=[ast.Constant(value=event)]):
            return event in EVENTS
        case ast.Call(func=ast.Attribute(attr="task" | "using"), keywords=given):
            return all(keyword.arg in OPTIONS for keyword in given)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="app"), attr=attr), keywords=given):
            return takes(getattr(Mulligan, attr, None), given)
        case ast.Call(func=ast.Name(id=name), keywords=given) if name[0].isupper():
            return takes(getattr(mulligan, name, None), given)
    return True


def owner_of(node: ast.AST) -> type | None:
    """Whose attribute it is, if it is one of ours."""
    match node:
        case ast.Name(id=name):
            return PlainTask if name in TASKS else OWNERS.get(name)
        case ast.Attribute(attr="schedules"):
            return Schedules
        case ast.Call(func=ast.Name(id="current_job")):
            return CurrentJob
        case ast.Call(func=ast.Attribute(attr="using")):
            return PlainTask
    return None


def takes(called: Any, given: list[ast.keyword]) -> bool:
    """Whether it exists and has these parameters."""
    if called is None:
        return False
    parameters = inspect.signature(called).parameters
    return all(keyword.arg in parameters for keyword in given)
