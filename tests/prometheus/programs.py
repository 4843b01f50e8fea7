"""Debian's Prometheus, installed where it is missing, scraping what a test tells it to."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import yaml  # type: ignore[import-untyped]

from tests.databases import _debian

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How long a busy machine may take to start it.
LONGEST_WAIT = 60.0


def installed(program: str) -> str:
    """The path of `prometheus` or `promtool`; raises Unavailable where it cannot be had."""
    if shutil.which(program) is None:
        _debian.install("prometheus")
    return shutil.which(program) or f"/usr/bin/{program}"


def promtool(*arguments: str, stdin: str | None = None, folder: Path | None = None) -> str:
    """Run promtool, which must find nothing wrong; what it said."""
    done = subprocess.run(
        [installed("promtool"), *arguments],
        input=stdin,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


class Prometheus:
    """A Prometheus that runs."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def query(self, query: str) -> list[dict[str, Any]]:
        """What it finds; a query that it cannot read fails the test."""
        answer = self._client.get("/api/v1/query", params={"query": query})
        assert answer.status_code == 200, (query, answer.text)
        found = answer.json()["data"]
        if found["resultType"] == "scalar":
            return [{"metric": {}, "value": found["result"]}]
        return list(found["result"])

    def get(self, path: str) -> Any:
        """Another answer of its API."""
        answer = self._client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def until(self, query: str) -> list[dict[str, Any]]:
        """What it finds, as soon as it finds something."""
        deadline = time.monotonic() + LONGEST_WAIT
        while not (found := self.query(query)):
            assert time.monotonic() < deadline, f"nothing found by {query}"
            time.sleep(0.2)
        return found


@contextmanager
def prometheus(folder: Path, config: dict[str, Any]) -> Iterator[Prometheus]:
    """Run it in a folder of its own with this configuration, until the block ends."""
    program = installed("prometheus")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        until_ready(url, process, folder)
        with httpx.Client(base_url=url, timeout=LONGEST_WAIT) as client:
            yield Prometheus(client)
    finally:
        process.terminate()
        process.wait(LONGEST_WAIT)


def until_ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until it answers; if it has ended, say why."""
    deadline = time.monotonic() + LONGEST_WAIT
    while True:
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        try:
            if httpx.get(f"{url}/-/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, (folder / "prometheus.log").read_text()
        time.sleep(0.1)
