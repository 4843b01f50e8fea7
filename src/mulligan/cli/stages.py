"""A chain: its stages, their jobs, and what became of each."""

from typing import Any

from rich.text import Text
from rich.tree import Tree

from mulligan.app.stages import StageView
from mulligan.cli.group import printable
from mulligan.cli.show import as_json, coloured
from mulligan.core.job import Job

SHOWN_JOBS = 20
# How much is shown of what a job is called with.
SHOWN_CALL = 60


def stage_json(stage: StageView) -> dict[str, Any]:
    """A stage for --json; of a fan-out, the first jobs that are stored."""
    return {
        "number": stage.number,
        "name": stage.name,
        "members": stage.members,
        "jobs": [job_line(stage, job) for job in stage.jobs],
    }


def job_line(stage: StageView, job: Job) -> dict[str, Any]:
    """A job in short, with what it is called with."""
    called = stage.input_of(job)
    return {
        "id": job.id,
        "status": job.status,
        "args": called.args,
        "kwargs": called.kwargs,
        "retry_count": job.retry_count,
        "awaits": job.awaits,
        "last_failure_reason": job.last_failure_reason,
    }


def tree_of(stages: list[StageView], current: str) -> Tree:
    """The stages in order, each with its jobs; the current job is highlighted."""
    root = Tree(Text("Chain", "bold"))
    for stage in stages:
        name = (printable(stage.name), "bold")
        branch = root.add(Text.assemble(f"{stage.number}. ", name, progress(stage)))
        for job in stage.jobs[:SHOWN_JOBS]:
            branch.add(leaf(stage, job, current))
        more = stage.members - len(stage.jobs[:SHOWN_JOBS])
        if stage.jobs and more > 0:
            branch.add(Text(f"… and {more} more", "dim"))
    return root


def progress(stage: StageView) -> str:
    """How many jobs of a fan-out are done, or that the stage has not begun."""
    if not stage.jobs:
        return "  not begun, or no longer stored"
    if stage.members <= 1:
        return ""
    done = sum(job.status == "done" for job in stage.jobs)
    whole = stage.members <= len(stage.jobs)
    return f"  {done} of {stage.members} done" if whole else f"  {stage.members} jobs"


def leaf(stage: StageView, job: Job, current: str) -> Text:
    """One job on one line."""
    line = Text(printable(job.id), "bold underline" if job.id == current else "")
    line.append(f"  {call_text(stage, job)}", "dim")
    line.append("  ").append_text(coloured(job.status))
    if job.retry_count:
        line.append(f", {job.retry_count} retries", "dim")
    if job.awaits:
        line.append(f", awaits {job.awaits}", "yellow")
    if job.status in ("failed", "pending") and job.last_failure_reason:
        line.append(f": {printable(job.last_failure_reason)}", "red")
    return line


def call_text(stage: StageView, job: Job) -> str:
    """What a job is called with, cut short."""
    called = stage.input_of(job)
    if called.left_out:
        return f"(… {called.left_out} results)"
    named = [f"{name}={as_json(value)}" for name, value in called.kwargs.items()]
    text = printable(f"({', '.join([*map(as_json, called.args), *named])})")
    return text if len(text) <= SHOWN_CALL else f"{text[: SHOWN_CALL - 2]}…)"
