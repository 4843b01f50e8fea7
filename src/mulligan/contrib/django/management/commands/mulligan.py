"""`manage.py mulligan`: the command line of mulligan on the app of a backend of TASKS."""

import argparse
import os
import sys
from typing import Any, ClassVar

from django.core.management.base import BaseCommand

from mulligan.cli import cli

COMMANDS = "worker, serve, status, jobs, dead and all the others"
EPILOG = "manage.py mulligan worker --help says what a command takes."


class Command(BaseCommand):
    """Hands everything after its name to mulligan, with MULLIGAN_APP set."""

    help = "Run a command of mulligan on the jobs of this project."
    requires_system_checks: ClassVar[list[str]] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """With the way to the help of a command."""
        return super().create_parser(prog_name, subcommand, epilog=EPILOG, **kwargs)

    def add_arguments(self, parser: Any) -> None:
        """Only which backend; the rest is mulligan's."""
        parser.add_argument("--backend", default="default", help="Which backend of TASKS.")
        parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="command", help=COMMANDS)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - as Django calls it
        """Run the command in this process; those that it starts find the same project."""
        os.environ["MULLIGAN_APP"] = f"mulligan.contrib.django.app:{options['backend']}"
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        cli.main(own_arguments(options["arguments"]) or ["--help"], prog_name="manage.py mulligan")


def own_arguments(arguments: list[str]) -> list[str]:
    """The arguments without those that Django has read already, wherever they stand."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(arguments)[1]
