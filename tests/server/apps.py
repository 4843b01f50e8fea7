"""An app whose results pass a gate, for a server that has it."""

import os

from mulligan import Delays, Mulligan, Retry

app = Mulligan(os.environ.get("TEST_STORE", "memory://"))


@app.task
def deliver(result: object) -> None:
    """A last stage."""


@app.task(
    queue="questions",
    retry=Retry(1, Delays((5.0,))),
    accept=lambda answer: answer["category"] != "Error",
)
async def ask(question: str, *, limit: int = 1) -> dict[str, str]:
    return {"question": question * limit, "category": "fine"}


@app.task(queue="logins")
async def log_in(user: str, password: str) -> None:
    return None
