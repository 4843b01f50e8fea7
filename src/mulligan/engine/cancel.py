"""Cancels tasks and makes sure that they have ended."""

import asyncio
from collections.abc import Sequence
from typing import Any

CANCEL_EVERY = 0.1


async def cancel_tasks(tasks: Sequence["asyncio.Future[Any]"]) -> None:
    """Cancel the tasks until they have ended.

    One cancellation may not be enough: `wait_for` of Python 3.11, which drivers use, swallows one
    that arrives together with the answer.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_EVERY)
    await asyncio.gather(*tasks, return_exceptions=True)
