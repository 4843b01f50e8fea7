"""The demo's worker processes, which are always cleaned up."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mulligan.core.errors import MulliganError

APP = "mulligan.cli.demo.app:app"
READY, START_WITHIN, STOP_WITHIN = "ready for jobs", 30.0, 5.0
OnMessage = Callable[[str, str], None]


class DemoWorkers:
    """One worker process per region. `on_message` gets each message that a worker logs."""

    def __init__(self, environment: Mapping[str, str], on_message: OnMessage) -> None:
        self._environment = {**os.environ, **environment}
        self._on_message = on_message
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._all: list[asyncio.subprocess.Process] = []
        self._listeners: list[asyncio.Task[None]] = []
        self._ended: dict[str, str] = {}
        self._stopping = False

    async def start(self, *regions: str) -> None:
        """Start workers and wait until they are ready."""
        waiting = [await self._spawn(region) for region in regions]
        try:
            async with asyncio.timeout(START_WITHIN):
                await asyncio.gather(*waiting)
        except TimeoutError as error:
            raise MulliganError(f"a worker was not ready within {START_WITHIN:g} s") from error

    async def kill(self, region: str) -> int:
        """Kill a worker as a power cut would, and return its process id."""
        process = self._processes.pop(region)
        process.kill()
        await process.wait()
        return process.pid

    def check(self) -> None:
        """Fail if a worker ended by itself."""
        for region, last in self._ended.items():
            raise MulliganError(f"the worker of {region} ended by itself: {last}")

    async def stop(self) -> None:
        """Stop every worker, and kill those that do not end in time."""
        self._stopping = True
        alive = [process for process in self._all if process.returncode is None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN):
                await asyncio.gather(*(process.wait() for process in alive))
        for process in alive:
            if process.returncode is None:
                process.kill()
                await process.wait()
        for listener in self._listeners:
            listener.cancel()
        await asyncio.gather(*self._listeners, return_exceptions=True)

    async def _spawn(self, region: str) -> "asyncio.Future[None]":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mulligan", "worker", APP, "--region", region),
            *("--log-format", "json"),
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C reaches the demo alone, which then stops the workers in order.
            start_new_session=True,
        )
        self._all.append(process)
        self._processes[region] = process
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners.append(asyncio.ensure_future(self._listen(region, process, ready)))
        return ready

    async def _listen(
        self, region: str, process: asyncio.subprocess.Process, ready: "asyncio.Future[None]"
    ) -> None:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        last = ""
        async for line in process.stderr:
            last = line.decode("utf-8", "replace").strip()
            message = message_of(last)
            if READY in message and not ready.done():
                ready.set_result(None)
            self._on_message(region, message)
        if not self._stopping and self._processes.get(region) is process:
            self._ended[region] = last
        if not ready.done():
            ready.set_exception(MulliganError(f"the worker of {region} did not start: {last}"))


def message_of(line: str) -> str:
    """The message of a logged line; of a line that is no JSON record, the line."""
    try:
        record: Any = msgspec.json.decode(line)
        return str(record["message"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return line
