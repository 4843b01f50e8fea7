"""The command line. A command's module is imported only when the command is used."""

import io
import sys

import click

from mulligan.cli.group import LazyGroup

# name: (module, attribute, what `mulligan --help` says)
COMMANDS = {
    "demo": (
        "demo.command",
        "demo",
        "Watch jobs fail, retry elsewhere and succeed, on this machine.",
    ),
    "worker": ("worker", "worker", "Run jobs of an app until stopped."),
    "dev": (
        "dev",
        "dev",
        "Run a worker, the server and the dashboard of an app while you write it.",
    ),
    "supervise": ("supervise", "supervise", "Run a fleet of workers as a file says."),
    "housekeep": ("housekeep", "housekeep", "Do the chores of a store without running jobs."),
    "serve": (
        "serve",
        "serve",
        "Serve the dashboard, the job API and workers in any language over HTTP.",
    ),
    "status": ("status", "status", "Show queues, regions and workers."),
    "top": ("top", "top", "Watch regions, retries, workers and alerts until Ctrl-C."),
    "queues": ("top", "queues", "Show what waits, runs and has ended, by queue."),
    "workers": ("top", "workers", "Show workers, and the fleets of supervisors."),
    "tasks": ("tasks", "tasks", "Show what every task did in the last hour."),
    "watch": ("watch", "watch", "Follow one job until it has ended."),
    "metrics": ("metrics", "metrics", "Show every metric with its values."),
    "enqueue": ("enqueue", "enqueue", "Have a task run by a worker."),
    "job": ("jobs", "job", "Show everything about one job, with its history."),
    "jobs": ("jobs", "jobs", "List jobs."),
    "explain": ("jobs", "explain", "Say in one sentence why a job is where it is."),
    "gather": ("gather", "gather", "Show a gather, cancel all of it, or replay what failed in it."),
    "dead": ("dead", "dead", "List, replay or purge the jobs that failed for good."),
    "cancel": ("operate", "cancel", "End pending and running jobs."),
    "pause": ("operate", "pause", "Start no more jobs of queues; running jobs go on."),
    "resume": ("operate", "resume", "Undo a pause."),
    "schedules": ("schedules", "schedules", "List and change calls that run by themselves."),
    "limits": ("limits", "limits", "List and change limits."),
    "fairness": (
        "limits",
        "fairness",
        "Show the fairness keys of a queue that have work waiting, with weights and shares.",
    ),
    "drain": ("operate", "drain", "Have workers finish what they run, and exit."),
    "doctor": ("doctor", "doctor", "Check a store and its workers; say what to do."),
    "migrate": ("migrate", "migrate", "Bring a store's schema up to date."),
    "copy": (
        "copy",
        "copy",
        "Move unfinished and failed jobs, and schedules, to another store.",
    ),
    "bridge": ("bridge", "bridge", "Take over what waits in queues of Celery or RQ."),
    "settings": ("settings", "settings", "Print every default and limit, with its meaning."),
    "simulate": (
        "simulate",
        "simulate",
        "Play a scenario in virtual time, and compare waits by policy.",
    ),
    "history": (
        "history",
        "history",
        "Write what became of jobs, for `simulate` to play again.",
    ),
    "bench": ("bench", "bench", "Measure throughput and latency on this machine."),
}

EPILOG = """\b
An app is written module:attribute, such as examples.questions:app.
MULLIGAN_APP and MULLIGAN_STORE stand in for --app and --store.

\b
Completion of commands and options, in ~/.bashrc (zsh and fish likewise):
  eval "$(_MULLIGAN_COMPLETE=bash_source mulligan)"
"""


@click.group(
    cls=LazyGroup,
    package="mulligan.cli",
    commands_by_name=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="mulligan", message="mulligan %(version)s")
def cli() -> None:
    """A job queue in which retries are first-class."""


def main() -> None:
    """Run the command line on this process's arguments.

    A character that the encoding of a stream lacks is written as an escape, and raises nothing.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    cli.main(prog_name="mulligan")


__all__ = ["cli", "main"]
