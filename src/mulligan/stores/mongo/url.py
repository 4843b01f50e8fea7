"""What a store URL says: where the server is, and what the store calls its things there."""

from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct

from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError

OWN_OPTIONS = ("collection", "default_task", "move_dead")
# What the driver is told unless the URL says otherwise. Alone it waits without end for an answer
# that a network has swallowed, on one such connection after the other. One that was not used for
# as long as an answer may take is replaced.
DEFAULTS = {
    "w": "majority",
    "connectTimeoutMS": "5000",
    "socketTimeoutMS": "10000",
    "serverSelectionTimeoutMS": "10000",
    "heartbeatFrequencyMS": "5000",
    "maxIdleTimeMS": "10000",
}
WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class StoreUrl(Struct, frozen=True):
    """The URL for the driver, without the options that are ours, and those options.

    `where` is the server as errors name it; `secrets` is what no error may show.
    """

    for_driver: str
    where: str
    database: str
    collection: str
    default_task: str | None
    move_dead: bool
    secrets: frozenset[str]

    def without_secrets(self, error: Exception) -> str:
        """The error's text as it may be shown, without the driver's settings and what it knows."""
        text = str(error).partition(" (configured timeouts")[0].partition(", Timeout: ")[0]
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def parse_url(url: str) -> StoreUrl:
    """Take the store's own options out of the URL; refuse what they cannot be."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in query if name in OWN_OPTIONS}
    others = [(name, value) for name, value in query if name not in OWN_OPTIONS]
    said = {name.lower() for name, _ in others}
    others += [(name, value) for name, value in DEFAULTS.items() if name.lower() not in said]
    move_dead = own.get("move_dead", "false").lower()
    if move_dead not in WORDS:
        raise InvalidError(f"move_dead {move_dead!r} is not true or false")
    collection = check_name("collection", own.get("collection", "tasks"))
    if collection.startswith("system.") or "$" in collection:
        raise InvalidError(f"collection {collection!r} is a name that MongoDB keeps for itself")
    task = own.get("default_task")
    password = parts.password or ""
    # Without the slash the driver would take the options for a database's name.
    driver = parts._replace(path=parts.path or "/", query=urlencode(others)).geturl()
    return StoreUrl(
        for_driver=driver,
        where=parts.netloc.rpartition("@")[2],
        database=unquote(parts.path.strip("/")) or "mulligan",
        collection=collection,
        default_task=None if task is None else check_name("default_task", task),
        move_dead=WORDS[move_dead],
        secrets=frozenset({password, unquote(password)} - {""}),
    )
