"""What a run stands on: a store, the server behind it, and what lies between."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.chaos.proxy import LOOPBACK, Proxy
from tests.databases import SERVERS, Unavailable
from tests.databases._debian import install

STORES = ("sqlite", "redis", "postgres", "mongo")
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
DISK = 96 * 1024 * 1024
# Set in a process that has mounts of its own.
APART = "MULLIGAN_CHAOS_APART"


class Stand(NamedTuple):
    """Where clients find the store, where it really is, and what can be done to it.

    A store without a server has no proxy. `disk` is a small file system that can be filled.
    """

    store: str
    url: str
    direct: str
    server: Any = None
    proxy: Proxy | None = None
    disk: Path | None = None


@contextmanager
def place(store: str) -> Iterator[tuple[str, Any]]:
    """A store's URL, and the server behind it that may be killed."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'chaos.db'}", None
        return
    with SERVERS[store]() as server:
        yield server.url, server


@contextmanager
def stand(store: str) -> Iterator[Stand]:
    """A store of its own with everything that can be done to it."""
    with ExitStack() as stack:
        if store == "sqlite":
            disk = stack.enter_context(small_disk())
            folder = disk or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = f"sqlite:///{folder / 'chaos.db'}"
            yield Stand(store, url, url, disk=disk)
            return
        url, server = stack.enter_context(place(store))
        proxy = stack.enter_context(Proxy(server.port))
        yield Stand(store, through(url, proxy.port), url, server, proxy)


def through(url: str, port: int) -> str:
    """The same URL by way of another port of this machine."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}{LOOPBACK}:{port}").geturl()


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A file system of a few megabytes, or None where mounting is not allowed."""
    if APART not in os.environ:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=False)


def with_mounts_of_its_own() -> None:
    """Begin this program anew where its mounts end with it, if that is allowed."""
    unshare = ["unshare", "--mount", "--propagation", "private"]
    allowed = shutil.which("unshare") and not subprocess.run(
        [*unshare, "true"], check=False, capture_output=True
    ).returncode  # fmt: skip
    if allowed and APART not in os.environ:
        os.environ[APART] = "1"
        again = [*unshare, sys.executable, "-m", "tests.chaos", *sys.argv[1:]]
        os.execvp("unshare", again)  # noqa: S606 - this very program


def fake_clock(seconds: float) -> dict[str, str]:
    """The environment of a process whose clock is off by so much; empty if that cannot be had."""
    library = faketime()
    if library is None or not seconds:
        return {}
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+g}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def faketime() -> Path | None:
    """The library that lies about the time; None if it cannot be had."""
    found = next(Path("/").glob(FAKETIME.lstrip("/")), None)
    if found is None:
        try:
            install("libfaketime")
        except Unavailable:
            return None
        found = next(Path("/").glob(FAKETIME.lstrip("/")), None)
    return found
