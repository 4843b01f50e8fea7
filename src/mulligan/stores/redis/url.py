"""What the URL of a Redis store may say: the server, and the options that are mulligan's own."""

import re
from inspect import signature
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct
from redis.asyncio import connection as driver_connection

from mulligan.core.checks import check_name, check_seconds
from mulligan.core.errors import InvalidError

OWN = ("prefix", "wait_replicas", "wait_timeout")
OWN_OF_SENTINELS = ("sentinel_username", "sentinel_password")
SENTINEL = "+sentinel"
PORT, SENTINEL_PORT = 6379, 26379
DEFAULT_PREFIX = "mulligan"
DEFAULT_WAIT = 1.0
# Valkey's own words, and what the driver calls the same.
VALKEY = {"valkey": "redis", "valkeys": "rediss"}


Address = tuple[str, int]


class RedisUrl(Struct, frozen=True):
    """A URL as it was read.

    `driver` is the part that the driver connects by, `shown` what messages may say of the server,
    and `tag` what every key begins with. `hosts` are all that the URL names: nodes of a cluster, or
    the sentinels of the `service` if there is one; none for a socket.
    """

    driver: str
    shown: str
    tag: str
    wait_replicas: int = 0
    wait_timeout: float = DEFAULT_WAIT
    hosts: tuple[Address, ...] = ()
    service: str = ""
    sentinel_username: str | None = None
    sentinel_password: str | None = None


def read_url(url: str) -> RedisUrl:
    """Read a store URL, or refuse an option that neither mulligan nor the driver knows."""
    parts = split_url(url)
    scheme = parts.scheme.removesuffix(SENTINEL)
    by_sentinel = scheme != parts.scheme
    words = (*OWN, *OWN_OF_SENTINELS) if by_sentinel else OWN
    query = parse_qsl(parts.query, keep_blank_values=True)
    own = {key: value for key, value in query if key in words}
    others = [(key, value) for key, value in query if key not in words]
    for key, _ in others:
        if key not in driver_options():
            message = (
                f"{key!r} is no option of a redis store; use {', '.join(words)},"
                " or an option of the driver redis-py"
            )
            raise InvalidError(message)
    name = "valkey" if scheme in VALKEY else "redis"
    user, mark, listed = parts.netloc.rpartition("@")
    hosts = read_hosts(listed, SENTINEL_PORT if by_sentinel else PORT)
    shown = f"{name} at {listed or parts.path}"
    service, path = "", parts.path
    if by_sentinel:
        service, path = read_service(parts.path, parts.scheme)
        shown = f"{name} service {service} of the sentinels at {listed}"
    first = f"{user}{mark}{listed.split(',')[0]}"
    return RedisUrl(
        driver=parts._replace(
            scheme=VALKEY.get(scheme, scheme), netloc=first, path=path, query=urlencode(others)
        ).geturl(),
        shown=shown,
        tag=f"{{{check_prefix(own.get('prefix', DEFAULT_PREFIX))}}}",
        wait_replicas=check_count(own.get("wait_replicas", "0")),
        wait_timeout=check_timeout(own.get("wait_timeout", str(DEFAULT_WAIT))),
        hosts=() if scheme == "unix" else hosts,
        service=service,
        sentinel_username=own.get("sentinel_username"),
        sentinel_password=own.get("sentinel_password"),
    )


def split_url(url: str) -> SplitResult:
    """As urlsplit; newer ones refuse several hosts if a later one is in brackets."""
    scheme, _, rest = url.partition("://")
    listed = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}://{rest.removeprefix(listed)}")._replace(netloc=listed)


def read_hosts(listed: str, port: int) -> tuple[Address, ...]:
    """The hosts and ports with commas between them; refuses a port that is no number."""
    hosts = tuple(
        [
            (parts.hostname or "localhost", parts.port or port)
            for parts in (urlsplit(f"//{host}") for host in listed.split(","))
        ]
    )
    for number, host in enumerate(hosts):
        if host in hosts[:number]:
            message = f"host {host[0]}:{host[1]} is named twice in {listed!r}; name each once"
            raise InvalidError(message)
    return hosts


def read_service(path: str, scheme: str) -> tuple[str, str]:
    """The name of the service, and the path of the database after it."""
    service, slash, database = path.removeprefix("/").partition("/")
    if not service:
        message = (
            f"a URL of {scheme}:// must name the service that sentinels watch, as in"
            f" {scheme}://host:26379,host:26379/mymaster"
        )
        raise InvalidError(message)
    return unquote(service), f"{slash}{database}"


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
