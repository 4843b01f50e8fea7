"""What a URL may say of shards: how many there are on one server, or the URL of each."""

from pathlib import PurePosixPath
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from mulligan.core.errors import InvalidError
from mulligan.core.shards import MOST_SHARDS
from mulligan.stores import LIST, redact, scheme_of

OPTION = "shards"
REDIS = ("redis", "rediss", "valkey", "valkeys", "unix")
SENTINEL = "+sentinel"
DEFAULT_PREFIX = "mulligan"
SAME = {"postgres": "postgresql", "mongodb+srv": "mongodb"}


def shard_urls(url: str) -> list[str]:
    """The URL of each shard, in their order; one if it asks for no more."""
    if LIST.search(url) is not None:
        return check_list(url.split())
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    asked = [value for name, value in query if name == OPTION]
    if not asked:
        return [url]
    count = check_count(asked[-1], url)
    rest = [(name, value) for name, value in query if name != OPTION]
    scheme = scheme_of(url)
    plain = with_query(url, rest)
    if scheme == "memory":
        return [plain] * count
    if scheme == "sqlite":
        return [plain] + [with_file(plain, number) for number in range(1, count)]
    if scheme.removesuffix(SENTINEL) in REDIS:
        prefix = dict(rest).get("prefix", DEFAULT_PREFIX)
        others = [each for each in rest if each[0] != "prefix"]
        return [plain] + [
            with_query(url, [*others, ("prefix", f"{prefix}:shard{number}")])
            for number in range(1, count)
        ]
    raise InvalidError(
        f"{OPTION}= of {redact(url)!r} is for memory, SQLite and Redis; for several databases give"
        " the URL of each, with blanks between them"
    )


def check_list(urls: list[str]) -> list[str]:
    """Refuse a list with a shard twice, or with shards of different kinds."""
    for number, url in enumerate(urls):
        if urls.index(url) != number:
            raise InvalidError(
                f"shard {redact(url)!r} is listed twice, as {urls.index(url)} and {number}; list"
                " each store once"
            )
        if OPTION in dict(parse_qsl(urlsplit(url).query)):
            raise InvalidError(
                f"shard {redact(url)!r} asks for shards itself; list each of them by its own URL"
            )
    kinds = {SAME.get(scheme_of(url), scheme_of(url)) for url in urls}
    if len(kinds) > 1:
        raise InvalidError(
            f"the list of shards has stores of several kinds ({', '.join(sorted(kinds))}); use one"
        )
    if len(urls) > MOST_SHARDS:
        raise InvalidError(f"{len(urls)} shards are more than the {MOST_SHARDS} there may be")
    return urls


def check_count(value: str, url: str) -> int:
    """How many shards are asked for."""
    if not (value.isascii() and value.isdecimal() and 1 <= int(value) <= MOST_SHARDS):
        raise InvalidError(
            f"{OPTION} {value!r} of {redact(url)!r} must be a whole number from 1 to {MOST_SHARDS}"
        )
    return int(value)


def with_query(url: str, query: list[tuple[str, str]]) -> str:
    """The URL with this query; urlsplit would take away slashes of an empty host."""
    base = url.partition("?")[0]
    return f"{base}?{urlencode(query, quote_via=quote)}" if query else base


def with_file(url: str, number: int) -> str:
    """The URL of another file beside the first: jobs.db, jobs-1.db, jobs-2.db."""
    base, mark, query = url.partition("?")
    path = PurePosixPath(base)
    if not unquote(base.removeprefix("sqlite://")).strip("/") or base.endswith(":memory:"):
        return url  # each in memory, by itself
    named = f"{path.stem}-{number}{path.suffix}"
    return f"{base[: len(base) - len(path.name)]}{named}{mark}{query}"
