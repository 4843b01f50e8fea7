"""The shop's tasks, as Celery runs them."""

import os

from celery import Celery, Task
from celery.schedules import crontab
from service import price

URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")

app = Celery("shop", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True,
    task_routes={"tasks.send_mail": {"queue": "mail"}},
    result_expires=3600,
    beat_schedule={"report": {"task": "tasks.report", "schedule": crontab(hour=6, minute=0)}},
)


@app.task(bind=True, max_retries=2)
def fetch_price(self: Task, item: str) -> int:
    """Ask the service; try again in half a second, then in one."""
    try:
        return price(item, earlier_failures=self.request.retries)
    except ConnectionError as error:
        raise self.retry(exc=error, countdown=0.5 * 2**self.request.retries) from error


@app.task
def total(prices: list[int]) -> int:
    """What all of it costs."""
    return sum(prices)


@app.task(autoretry_for=(ConnectionError,), retry_backoff=True, max_retries=5, rate_limit="10/s")
def send_mail(to: str, text: str) -> str:
    """Say what would be sent."""
    return f"to {to}: {text}"


@app.task(soft_time_limit=50, time_limit=60)
def report() -> None:
    """Runs every morning, by beat."""
    send_mail.delay("boss", "another day")
