"""One contender at work: its client, its worker processes, and the notes that its jobs leave."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from benchmarks.contenders import Contender
from benchmarks.emptied import emptied
from benchmarks.environments import PEERS, command_of
from tests.databases._server import alive, family, leash, send

ENDED_WITHIN = 10.0


class Driver:
    """Starts a client on an emptied store and does what a measure asks for."""

    def __init__(
        self, contender: Contender, more: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.contender = contender
        self.folder = Path(tempfile.mkdtemp(prefix="mulligan-bench-"))
        self.notes = Notes(self.folder / "notes")
        self.before = 0.0
        self._command, variables = command_of(contender.peer, node=contender.node)
        self.variables = (
            os.environ
            | variables
            | {
                "BENCH_URL": emptied(contender, self.folder),
                "BENCH_VARIANT": contender.variant,
                "BENCH_FOLDER": str(self.folder),
                "BENCH_CONCURRENCY": "0",
            }
            | dict(more)
        )
        self._log = (self.folder / "log").open("ab")
        self._processes: list[subprocess.Popen[str]] = []
        self._client = self._start("client", 0)
        try:
            # It answers when it has made what workers need in the store.
            self.version = str(self.call("version"))
        except BaseException:
            self.close()
            raise

    def call(self, verb: str, *arguments: object) -> object:
        """Have the client do something; what it answers."""
        request = json.dumps({"verb": verb, "arguments": arguments})
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        try:
            self._client.stdin.write(request + "\n")
            self._client.stdin.flush()
            answer = json.loads(self._client.stdout.readline())
        except (OSError, ValueError):
            raise RuntimeError(
                f"{self.contender.key}: no answer to {verb}: {self.said()}"
            ) from None
        if "error" in answer:
            raise RuntimeError(f"{self.contender.key}: {verb}: {answer['error']}")
        self.before = answer.get("before", 0.0)
        return answer["value"]

    def count(self, verb: str) -> int:
        """A number that the client reads from the store."""
        number = self.call(verb)
        assert isinstance(number, int), number
        return number

    def work(self, job: str, seconds: float = 0.0, delay: float = 0.0) -> None:
        """Enqueue one job that notes the time."""
        self.call("enqueue_work", [[job, seconds, delay]])

    def fill(self, count: int, *, plain: bool) -> None:
        """Enqueue no-ops the fastest way there is."""
        if self.contender.bulk:
            self.call("enqueue_many", count, plain)
        else:
            self.call("enqueue_one", count)

    def start_worker(self, concurrency: int = 0) -> "subprocess.Popen[str]":
        """A worker process of the peer's own."""
        return self._start("worker", concurrency)

    def idle_worker(self) -> "subprocess.Popen[str]":
        """A worker that has shown that it is up."""
        process = self.start_worker()
        self.work("warm-up")
        if not self.notes.wait_for("warm-up", "end", within=30.0):
            raise TimeoutError(f"no job was started: {self.said()}")
        return process

    def kill(self, process: "subprocess.Popen[str]") -> None:
        """End a process and its children, as if the power went."""
        victims = family(process.pid)
        for pid in victims:
            send(pid, signal.SIGKILL)
        process.wait()
        give_up = time.monotonic() + ENDED_WITHIN
        while any(alive(pid) for pid in victims) and time.monotonic() < give_up:
            time.sleep(0.01)

    def close(self) -> None:
        """End everything; the store is emptied when it is next used."""
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def said(self) -> str:
        """The end of what its processes printed."""
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[-3:]) or "nothing was printed"

    def start_role(self, role: str, **variables: str) -> "subprocess.Popen[str]":
        """Another process of the peer's, with variables of its own."""
        return self._start(role, 0, variables)

    def _start(
        self, role: str, concurrency: int, variables: Mapping[str, str] = MappingProxyType({})
    ) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE if role == "client" else None
        process = subprocess.Popen(
            [*leash(), *self._command, role],
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or self._log,
            stderr=self._log,
            text=True,
            cwd=PEERS,
            env=self.variables | {"BENCH_CONCURRENCY": str(concurrency)} | dict(variables),
        )
        self._processes.append(process)
        return process


class Notes:
    """What jobs wrote down: for each job, what happened and when, in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.of: dict[str, list[tuple[str, float]]] = {}

    def read(self) -> None:
        """Take in whole lines that are new."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            job, what, when = line.split()
            self.of.setdefault(job, []).append((what, float(when)))

    def times(self, job: str, what: str) -> list[float]:
        """When this happened to the job."""
        return [when for kind, when in self.of.get(job, ()) if kind == what]

    def wait_for(self, job: str, what: str, *, within: float, times: int = 1) -> bool:
        """Wait until it has happened so often; False if it does not in time."""
        give_up = time.monotonic() + within
        self.read()
        while len(self.times(job, what)) < times:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.002)
            self.read()
        return True
