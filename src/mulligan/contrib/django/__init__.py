"""mulligan in Django: a backend for its tasks, a command, its admin, and the dashboard.

`TASKS = {"default": {"BACKEND": "mulligan.contrib.django.Backend", "OPTIONS": {"url": …}}}`, and
"mulligan.contrib.django" among the INSTALLED_APPS. See docs/howto/django.md.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mulligan.contrib.django.backend import Backend

__all__ = ["Backend"]


def __getattr__(name: str) -> Any:
    """Import the backend when it is asked for: Django imports this package before it is set up."""
    if name != "Backend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mulligan.contrib.django.backend import Backend  # noqa: PLC0415 - as said above

    return Backend
