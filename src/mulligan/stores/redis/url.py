"""What the URL of a Redis store may say: the server, and the options that are mulligan's own."""

from inspect import signature
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct
from redis.asyncio import connection as driver_connection

from mulligan.core.checks import check_name, check_seconds
from mulligan.core.errors import InvalidError

OWN = ("prefix", "wait_replicas", "wait_timeout")
DEFAULT_PREFIX = "mulligan"
DEFAULT_WAIT = 1.0
# Valkey's own words, and what the driver calls the same.
VALKEY = {"valkey": "redis", "valkeys": "rediss"}


class RedisUrl(Struct, frozen=True):
    """A URL as it was read.

    `driver` is the part that the driver connects by, `shown` what messages may say of the server,
    and `tag` what every key begins with.
    """

    driver: str
    shown: str
    tag: str
    wait_replicas: int = 0
    wait_timeout: float = DEFAULT_WAIT


def read_url(url: str) -> RedisUrl:
    """Read a store URL, or refuse an option that neither mulligan nor the driver knows."""
    parts = urlsplit(url)
    _ = parts.port  # refuses one that is no number
    query = parse_qsl(parts.query, keep_blank_values=True)
    own = {key: value for key, value in query if key in OWN}
    others = [(key, value) for key, value in query if key not in OWN]
    for key, _ in others:
        if key not in driver_options():
            message = (
                f"{key!r} is no option of a redis store; use {', '.join(OWN)},"
                " or an option of the driver redis-py"
            )
            raise InvalidError(message)
    name = "valkey" if parts.scheme in VALKEY else "redis"
    return RedisUrl(
        driver=parts._replace(
            scheme=VALKEY.get(parts.scheme, parts.scheme), query=urlencode(others)
        ).geturl(),
        shown=f"{name} at {parts.netloc.rpartition('@')[2] or parts.path}",
        tag=f"{{{check_prefix(own.get('prefix', DEFAULT_PREFIX))}}}",
        wait_replicas=check_count(own.get("wait_replicas", "0")),
        wait_timeout=check_timeout(own.get("wait_timeout", str(DEFAULT_WAIT))),
    )


def driver_options() -> set[str]:
    """The options that the driver takes from a URL."""
    kinds = (
        driver_connection.AbstractConnection,
        driver_connection.Connection,
        driver_connection.SSLConnection,
        driver_connection.UnixDomainSocketConnection,
    )
    named = {name for kind in kinds for name in signature(kind).parameters}
    return named.union(driver_connection.URL_QUERY_ARGUMENT_PARSERS) - {"kwargs"}


def check_prefix(value: str) -> str:
    """Return the prefix, or refuse one that would break the hash tag around it."""
    check_name("prefix", value)
    if "{" in value or "}" in value:
        message = f"prefix {value!r} must not contain braces; they mark the cluster slot"
        raise InvalidError(message)
    return value


def check_count(value: str) -> int:
    """Return how many replicas must acknowledge a write."""
    if not value.isdecimal():
        message = f"wait_replicas {value!r} must be a whole number, 0 or more"
        raise InvalidError(message)
    return int(value)


def check_timeout(value: str) -> float:
    """Return how long to wait for replicas, in seconds."""
    try:
        number = float(value)
    except ValueError:
        message = f"wait_timeout {value!r} must be a number of seconds"
        raise InvalidError(message) from None
    return check_seconds("wait_timeout", number, least=0.001)
