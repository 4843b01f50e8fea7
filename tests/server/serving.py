"""A server as a process of its own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen  # noqa: TC003 - read when it runs

from tests.cli.running import process, read_until


@contextmanager
def server(*arguments: str, **environment: str) -> Iterator[tuple[str, "Popen[str]"]]:
    """`mulligan serve` on a free port: its address and its process."""
    with process("serve", "--port", "0", "--log-level", "warning", *arguments, **environment) as it:
        line = read_until(it, "  address ")[-1]
        found = re.search(r"http://\S+", line)
        assert found is not None
        yield found[0], it
