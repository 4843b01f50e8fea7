"""An app whose jobs call a provider, for worker processes."""

import os

import httpx

from mulligan import Delays, Mulligan, Retry


def make(url: str) -> Mulligan:
    """The app on this store: one call at a time, and a 429 is for all."""
    made = Mulligan(url)
    made.limit("provider", concurrency=1, pause_on_retry_after=True)

    @made.task(name="call", limits="provider", retry=Retry(20, Delays((0,))))
    async def call(address: str) -> int:
        async with httpx.AsyncClient() as client:
            answer = await client.get(address)
        answer.raise_for_status()
        return answer.status_code

    return made


app = make(os.environ.get("TEST_STORE", "memory://"))
