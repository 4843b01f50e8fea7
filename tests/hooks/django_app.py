"""Tasks that use Django's database; with FRESH set, its connections are kept fresh."""

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import close_old_connections, connection

from mulligan import CurrentCall, Delays, Mulligan, Retry

server = urlsplit(os.environ["DJANGO_POSTGRES"])
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": server.hostname,
            "PORT": server.port,
            "USER": server.username,
            "NAME": server.path[1:],
            # A connection is kept for later jobs of its thread.
            "CONN_MAX_AGE": 600,
            "CONN_HEALTH_CHECKS": True,
        }
    }
)
django.setup()
app = Mulligan(os.environ["JOBS"])

if "FRESH" in os.environ:

    @app.middleware(plain_only=True)
    def fresh_connections(call: Callable[[], Any], job: CurrentCall) -> Any:
        """As docs/concepts/hooks.md has it."""
        close_old_connections()
        try:
            return call()
        finally:
            close_old_connections()


@app.task(retry=Retry(2, Delays((0,))))
def backend_pid() -> int:
    """The process of the server that serves this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid: int = cursor.fetchone()[0]
        return pid


@app.task
async def beside() -> str:
    """A coroutine in the same app."""
    return "beside"
