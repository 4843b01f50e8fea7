"""Django's tasks: in Django itself from 6.0 on, before it in the package django-tasks."""

from importlib import import_module
from typing import Any

from django import VERSION
from django.core.exceptions import ImproperlyConfigured

BUILT_IN = (6, 0)
PACKAGE = "django.tasks" if VERSION >= BUILT_IN else "django_tasks"

try:
    tasks: Any = import_module(PACKAGE)
except ModuleNotFoundError as error:
    if error.name != PACKAGE:
        raise
    raise ImproperlyConfigured(
        f"Django {VERSION[0]}.{VERSION[1]} has no tasks of its own; run: pip install django-tasks"
    ) from error
base: Any = import_module(f"{PACKAGE}.base")
backends: Any = import_module(f"{PACKAGE}.backends.base")
exceptions: Any = import_module(f"{PACKAGE}.exceptions")
# django-tasks up to 0.12 has another name for it.
InvalidTask: Any = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
signals: Any = import_module(f"{PACKAGE}.signals")
normalize_json: Any = import_module(
    "django.utils.json" if VERSION >= BUILT_IN else "django_tasks.utils"
).normalize_json
