"""The apps of TASKS for the command line, by their aliases: mulligan.contrib.django.app:default."""

from typing import Any

import django
from django.apps import apps

from mulligan.contrib.django.registry import discover

if not apps.ready:
    django.setup()


def __getattr__(alias: str) -> Any:
    """The app of this backend, with all its tasks."""
    if alias.startswith("__"):
        raise AttributeError(alias)
    return discover(alias)
