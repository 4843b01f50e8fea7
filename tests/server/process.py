"""A server as a process of its own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen  # noqa: TC003 - read when it runs
from typing import Any

import httpx

from tests.cli.command_line import process, read_until

# How long a busy machine may take to answer or to stop.
LONGEST_WAIT = 60


@contextmanager
def server(*arguments: str, **more: Any) -> Iterator[tuple[str, "Popen[str]"]]:
    """`mulligan serve` on a free port: its address and its process."""
    with process("serve", "--port", "0", "--log-level", "warning", *arguments, **more) as it:
        line = read_until(it, "  address ")[-1]
        found = re.search(r"http://\S+", line)
        assert found is not None
        yield found[0], it


def client_of(address: str, **more: Any) -> httpx.Client:
    """A client of the server."""
    return httpx.Client(base_url=address, timeout=LONGEST_WAIT, **more)
