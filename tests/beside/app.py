"""The app whose worker shares a collection with the stranger."""

import os

from mulligan import Delays, Mulligan, Retry

app = Mulligan(os.environ.get("BESIDE_URL", "memory://"))


@app.task(retry=Retry(3, Delays((0.05,))))
async def ask(number: int) -> int:
    """The number, and one more."""
    return number + 1


@app.task(retry=Retry(0))
async def refuse(number: int) -> None:
    """Fails for good."""
    raise ValueError(f"not {number}")
