"""The shop's tasks, as Huey runs them."""

import os

from huey import RedisHuey, crontab
from huey.api import Task
from service import price

URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")
RETRIES = 2

# A result is what the last try came to, not the first.
huey = RedisHuey("shop", url=URL, store_intermediate_errors=False)


@huey.task(retries=RETRIES, retry_delay=0.5, context=True)
def fetch_price(item: str, task: Task | None = None) -> int:
    """Ask the service; try again in half a second, twice."""
    return price(item, earlier_failures=RETRIES - task.retries)


@huey.task()
def total(prices: list[int]) -> int:
    """What all of it costs."""
    return sum(prices)


@huey.task(retries=5)
def send_mail(to: str, text: str) -> str:
    """Say what would be sent."""
    return f"to {to}: {text}"


@huey.periodic_task(crontab(hour="6", minute="0"))
def report() -> None:
    """Runs every morning, by the consumer's scheduler."""
    send_mail("boss", "another day")
