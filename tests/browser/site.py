"""A store, a server over it, and workers: as processes, as people run them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.cli.command_line import do, process
from tests.server.process import LONGEST_WAIT, server

if TYPE_CHECKING:
    from collections.abc import Callable

    from mulligan.stores.contract import Store

APP = "tests.browser.apps:app"


async def opened(store: Store) -> None:
    """Nothing more than opening it."""


class Site:
    """`mulligan serve` over a store, with the test app or without one."""

    def __init__(self, store: str, *arguments: str, app: bool = False) -> None:
        self.store = store
        target = (APP,) if app else ("--store", store)
        self._arguments = (*target, *arguments)
        self._stack = ExitStack()
        self.address = ""

    def __enter__(self) -> Self:
        self.on_store(opened)  # a server that only shows makes no store
        started = server(*self._arguments, TEST_STORE=self.store)
        self.address, _ = self._stack.enter_context(started)
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and the workers."""
        self._stack.close()

    def start_worker(self, region: str, concurrency: int = 2) -> None:
        """Start a worker process there."""
        options = ("-r", region, "-c", str(concurrency), "--log-level", "error")
        self._stack.enter_context(process("worker", APP, *options, TEST_STORE=self.store))

    def get(self, path: str, **parameters: Any) -> Any:
        """What the API answers."""
        answer = httpx.get(f"{self.address}{path}", params=parameters, timeout=LONGEST_WAIT)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        """What the API answers to a write."""
        answer = httpx.post(f"{self.address}{path}", json=body, timeout=LONGEST_WAIT)
        answer.raise_for_status()
        return answer.json()

    def on_store(self, work: Callable[[Any], Any]) -> Any:
        """Run `work(store)`; in a thread, because Playwright has an event loop in this one."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(do, self.store, work).result()
