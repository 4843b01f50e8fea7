"""The shop's tasks, as Dramatiq runs them."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis import Redis
from service import price

URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")

# Whoever waits for a result blocks in Redis for longer than the driver's timeout.
redis = Redis.from_url(URL, socket_timeout=None)
broker = RedisBroker(url=URL)
broker.add_middleware(CurrentMessage())
broker.add_middleware(Results(backend=RedisBackend(client=redis)))
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=2, min_backoff=500, store_results=True)
def fetch_price(item: str) -> int:
    """Ask the service; try again in about half a second, then in one."""
    message = CurrentMessage.get_current_message()
    return price(item, earlier_failures=message.options.get("retries", 0))


@dramatiq.actor(store_results=True)
def total(prices: list[int]) -> int:
    """What all of it costs."""
    return sum(prices)


@dramatiq.actor(queue_name="mail", max_retries=5, store_results=True)
def send_mail(to: str, text: str) -> str:
    """Say what would be sent, unless it was called back, of which the shop keeps a list."""
    if redis.sismember("called-back", CurrentMessage.get_current_message().message_id):
        return "called back"
    return f"to {to}: {text}"
