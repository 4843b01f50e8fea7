"""The proxy does to a connection what it says."""

import asyncio
from contextlib import suppress

import pytest

from tests.chaos.proxy import LOOPBACK, Proxy


@pytest.fixture
async def heard():
    """What the server behind the proxy has heard; it answers each line with the same line."""
    lines: list[bytes] = []
    told = asyncio.Event()
    serving: set[asyncio.StreamWriter] = set()

    async def echo(reader, writer):
        serving.add(writer)
        with suppress(ConnectionError):
            while line := await reader.readline():
                lines.append(line)
                told.set()
                writer.write(line)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        serving.discard(writer)

    async with await asyncio.start_server(echo, LOOPBACK, 0) as server:
        with Proxy(server.sockets[0].getsockname()[1]) as proxy:
            yield proxy, lines, told
        while serving:  # noqa: ASYNC110 - the last of several to end
            await asyncio.sleep(0.001)


async def connect(proxy):
    return await asyncio.open_connection(LOOPBACK, proxy.port)


async def test_bytes_pass_both_ways(heard):
    proxy, lines, _ = heard
    reader, writer = await connect(proxy)
    writer.write(b"a word\n")
    assert await reader.readline() == b"a word\n"
    assert lines == [b"a word\n"]
    writer.close()


async def test_what_dribbles_arrives_whole(heard):
    proxy, _, _ = heard
    proxy.dribbles, proxy.delay = True, 0.001
    reader, writer = await connect(proxy)
    writer.write(b"x" * 1000 + b"\n")
    assert await reader.readline() == b"x" * 1000 + b"\n"
    writer.close()


async def is_over(reader, writer):
    """Whether the connection has ended, in order or not."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_cut_connection_is_over_and_a_new_one_works(heard):
    proxy, _, _ = heard
    reader, writer = await connect(proxy)
    writer.write(b"before\n")
    await reader.readline()
    proxy.cut()
    assert await is_over(reader, writer)
    reader, writer = await connect(proxy)
    writer.write(b"after\n")
    assert await reader.readline() == b"after\n"
    writer.close()


async def test_a_deaf_client_is_served_and_never_hears_of_it(heard):
    proxy, lines, told = heard
    reader, writer = await connect(proxy)
    proxy.deaf = True
    writer.write(b"do it\n")
    await told.wait()
    assert lines == [b"do it\n"]
    while not proxy.missed:  # noqa: ASYNC110 - it belongs to another loop
        await asyncio.sleep(0)
    proxy.hear()
    assert await is_over(reader, writer)


async def test_nobody_behind_the_proxy_is_the_end_of_the_connection():
    with Proxy(1) as proxy:
        assert await is_over(*await connect(proxy))


async def test_a_connection_that_lost_something_stays_mute_and_a_new_one_does_not(heard):
    proxy, lines, _ = heard
    reader, writer = await connect(proxy)
    proxy.swallows = True
    writer.write(b"lost\n")
    await swallowed(proxy)
    proxy.swallows = False
    writer.write(b"lost too\n")
    other_reader, other = await connect(proxy)
    other.write(b"a word\n")
    assert await other_reader.readline() == b"a word\n"
    assert lines == [b"a word\n"]
    assert not reader.at_eof()
    for each in (writer, other):
        each.close()


async def swallowed(proxy):
    """Return when the proxy has swallowed something."""
    while not proxy.swallowed:  # noqa: ASYNC110 - it happens on another thread
        await asyncio.sleep(0.001)
