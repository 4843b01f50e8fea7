"""What a store's URL says: where the server is, and which options are ours."""

from hashlib import sha256
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from msgspec import Struct

from mulligan.core.checks import check_seconds
from mulligan.core.errors import InvalidError

OWN = ("schema", "listen", "answer_within")
SCHEMA_LIMIT = 63
# Longer than an operation takes on a server that is alive, however busy.
ANSWER_WITHIN = 10.0


class Url(Struct, frozen=True):
    """Where a store is. `conninfo` is for the driver and may hold a password; `shown` has none."""

    conninfo: str
    shown: str
    schema: str
    listen: bool
    answer_within: float
    password: str | None


def read_url(url: str) -> Url:
    """Read `postgresql://…?schema=mulligan&listen=on`; all other options go to the driver."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in options if name in OWN}
    rest = [(name, value) for name, value in options if name not in own]
    schema = own.get("schema", "mulligan")
    if not schema or len(schema.encode()) > SCHEMA_LIMIT or not schema.isprintable():
        raise InvalidError(f"schema {schema!r} must have 1 to {SCHEMA_LIMIT} printable characters")
    listen = own.get("listen", "on")
    if listen not in ("on", "off"):
        raise InvalidError(f"listen {listen!r} must be on or off")
    host = parts.netloc.rpartition("@")[2] or "the default socket"
    secrets = [value for name, value in rest if name == "password"]
    return Url(
        conninfo=parts._replace(query=urlencode(rest, quote_via=quote)).geturl(),
        shown=f"{host}{parts.path}",
        schema=schema,
        listen=listen == "on",
        answer_within=read_seconds(own.get("answer_within", str(ANSWER_WITHIN))),
        password=parts.password or (secrets[0] if secrets else None),
    )


def read_seconds(value: str) -> float:
    """How long the server may take to answer."""
    try:
        number = float(value)
    except ValueError:
        raise InvalidError(f"answer_within {value!r} must be a number of seconds") from None
    return check_seconds("answer_within", number, least=0.001)


def ended_key(schema: str) -> int:
    """The advisory lock that is held, shared, while anybody waits for jobs of this schema."""
    digest = sha256(f"mulligan ended {schema}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
