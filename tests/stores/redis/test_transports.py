"""Other ways to a Redis server: through a socket in the file system, encrypted, with a password."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
import redis

from mulligan.core.errors import StoreError
from mulligan.stores.redis import RedisStore
from tests.contract.builders import ANN, claim, done, job, start
from tests.contract.waits import woken
from tests.databases import RedisServer, Unavailable
from tests.databases._debian import install
from tests.databases._server import LOOPBACK, free_port
from tests.store_kit import require

PASSWORD = "open sesame/100%"  # noqa: S105 - of a server that lives as long as these tests
LARGE = b'{"kwargs":{"text":"' + b"x" * 2_000_000 + b'"}}'
WAYS = ("socket", "encrypted", "named")


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """A server with a password, and the ways to it; without TLS where it is built without."""
    require("redis")
    try:
        with served(tls=True) as found:
            yield found
    except Unavailable as error:
        if "tls" not in str(error).lower():
            raise
        with served(tls=False) as found:
            yield found


@contextmanager
def served(*, tls: bool) -> Iterator[dict[str, str]]:
    """A server, and the ways to it."""
    server = RedisServer()
    socket, certificate, key = (server.folder / name for name in ("socket", "cert", "key"))
    if shutil.which("openssl") is None:
        install("openssl")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{LOOPBACK}"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    port = free_port()
    encryption = {
        "tls-port": str(port),
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(certificate),
        "tls-auth-clients": "no",
    }
    server.further = {"unixsocket": str(socket)} | (encryption if tls else {})
    secret = quote(PASSWORD, safe="")
    with server:
        with redis.Redis.from_url(server.url) as plain:
            plain.execute_command(
                "ACL", "SETUSER", "ann", "on", f">{PASSWORD}", "~*", "&*", "+@all"
            )
        encrypted = {
            "encrypted": f"rediss://{LOOPBACK}:{port}/0?ssl_ca_certs={quote(str(certificate))}",
            "unverified": f"rediss://{LOOPBACK}:{port}/0",
        }
        yield (encrypted if tls else {}) | {
            "socket": f"unix://ann:{secret}@{socket}",
            "named": f"redis://ann:{secret}@{LOOPBACK}:{server.port}/0",
            "wrong": f"redis://ann:{secret}x@{LOOPBACK}:{server.port}/0",
        }


def way_to(urls: dict[str, str], way: str) -> str:
    """The URL of a way, if the server has it."""
    if way not in urls:
        pytest.skip("store redis: this server is built without TLS")
    return urls[way]


@pytest.fixture(params=WAYS)
async def store(urls, request) -> AsyncIterator[RedisStore]:
    url = way_to(urls, request.param)
    store = RedisStore(f"{url}{'&' if '?' in url else '?'}prefix={request.param}")
    await store.open()
    yield store
    await store.close()


async def test_a_sleeper_is_woken_and_a_large_job_comes_through(store):
    """Large: it does not come in one piece."""
    await claim(store)
    sleeper = asyncio.create_task(woken(store, ANN))
    await asyncio.sleep(0)
    await store.enqueue([job("a", body=LARGE)])
    assert await sleeper
    taken = await start(store)
    assert taken.body == LARGE
    assert await store.commit([done(taken, LARGE)]) == ["written"]
    assert (await store.get("a")).result == LARGE


@pytest.mark.parametrize(
    ("way", "words"),
    [("wrong", "refused the user or password"), ("unverified", "certificate verify failed")],
)
async def test_who_does_not_come_in_is_told_why_and_not_the_password(urls, way, words):
    url = way_to(urls, way)
    with pytest.raises(StoreError, match=words) as refused:
        await RedisStore(url).open()
    assert PASSWORD not in str(refused.value)
    assert quote(PASSWORD, safe="") not in str(refused.value)
