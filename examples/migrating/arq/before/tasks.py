"""The shop's tasks, as arq runs them."""

import os
from typing import Any, ClassVar

from arq import Retry, cron
from arq.connections import RedisSettings
from service import price

URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")
SETTINGS = RedisSettings.from_dsn(URL)
TRIES = 3


async def fetch_price(ctx: dict[str, Any], item: str) -> int:
    """Ask the service; try again in half a second, then in one."""
    try:
        return price(item, earlier_failures=ctx["job_try"] - 1)
    except ConnectionError as error:
        if ctx["job_try"] == TRIES:
            raise
        raise Retry(defer=0.5 * ctx["job_try"]) from error


async def total(_ctx: dict[str, Any], prices: list[int]) -> int:
    """What all of it costs."""
    return sum(prices)


async def send_mail(_ctx: dict[str, Any], to: str, text: str) -> str:
    """Say what would be sent."""
    return f"to {to}: {text}"


async def report(ctx: dict[str, Any]) -> None:
    """Runs every morning, by whichever worker is first."""
    await ctx["redis"].enqueue_job("send_mail", "boss", "another day")


class WorkerSettings:
    """What `arq` runs."""

    redis_settings = SETTINGS
    functions: ClassVar = [fetch_price, total, send_mail]
    cron_jobs: ClassVar = [cron(report, hour=6, minute=0)]
    max_tries = TRIES
    allow_abort_jobs = True
