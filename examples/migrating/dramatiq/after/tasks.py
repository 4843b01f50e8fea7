"""The shop's tasks, as mulligan runs them."""

import os

from service import price

from mulligan import Exponential, Mulligan, Retry, current_job

URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")

app = Mulligan(URL)


@app.task(retry=Retry(2, backoff=Exponential(0.5, jitter="none"), on=ConnectionError))
def fetch_price(item: str) -> int:
    """Ask the service; try again in half a second, then in one."""
    return price(item, earlier_failures=current_job().attempt - 1)


@app.task
def total(prices: list[int]) -> int:
    """What all of it costs."""
    return sum(prices)


@app.task(queue="mail", retry=Retry(5))
def send_mail(to: str, text: str) -> str:
    """Say what would be sent."""
    return f"to {to}: {text}"
