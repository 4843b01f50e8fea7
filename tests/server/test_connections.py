"""Clients that keep the server waiting, over real sockets: before anybody has shown a token."""

import json
import select
import socket
from contextlib import ExitStack
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from mulligan.server.connections import LEAST_READ, address_of, bounded
from tests.cli.command_line import refused
from tests.server.process import LONGEST_WAIT, client_of, server
from tests.server.test_serve import peer

STORE = ("--store", "memory://")
SOON = ("--request-timeout", "0.2")
TOKEN = "t" * 32
HEAD = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def stack():
    with ExitStack() as it:
        yield it


@pytest.fixture
def tokens(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"operate {TOKEN}")
    file.chmod(0o600)
    return ("--token-file", str(file))


def connected(address):
    return socket.create_connection(peer(address), timeout=LONGEST_WAIT)


def connected_from(address, host):
    """A connection from another address of this machine."""
    source = (host, 0)
    return socket.create_connection(peer(address), timeout=LONGEST_WAIT, source_address=source)


def ask_and_never_read(address):
    """Ask for a file many times and read nothing of it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(LONGEST_WAIT)
    connection.connect(peer(address))
    connection.sendall(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
    return connection


def closed_by_server(connection):
    """Wait, without reading, until the server closes the connection."""
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(LONGEST_WAIT * 1000))


def answer(connection):
    """All that comes until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def drip(connection, byte):
    """Send a byte now and then, until the server closes the connection."""
    connection.settimeout(0.02)
    while True:
        try:
            if not connection.recv(65_536):
                return
        except TimeoutError:
            pass
        except ConnectionError:
            return
        try:
            connection.sendall(byte)
        except ConnectionError:
            return


@pytest.mark.parametrize("sent", [b"", b"G", HEAD, HEAD + b"Content-Length: 9\r\n\r\n{"])
def test_a_request_that_never_arrives_is_not_waited_for(tokens, sent):
    with server(*STORE, *SOON, *tokens) as (address, _), ExitStack() as stack:
        all_of_them = [stack.enter_context(connected(address)) for _ in range(20)]
        for each in all_of_them:
            each.sendall(sent)
        for each in all_of_them:
            said = answer(each)
            assert said == b"" or said.startswith(b"HTTP/1.1 401 ")
        with client_of(address) as client:
            assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    ("sent", "byte"), [(HEAD, b"x"), (HEAD + b"Content-Length: 999999\r\n\r\n", b" ")]
)
def test_nor_is_one_that_arrives_a_byte_at_a_time(tokens, sent, byte):
    with server(*STORE, *SOON, *tokens) as (address, _), connected(address) as slow:
        slow.sendall(sent)
        drip(slow, byte)


def test_one_that_does_not_arrive_after_a_whole_one_is_not_waited_for_either():
    with server(*STORE, *SOON) as (address, _), connected(address) as slow:
        slow.sendall(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/st")
        assert answer(slow).count(b"HTTP/1.1 200 ") == 1


def test_a_late_body_is_refused_in_words():
    with server(*STORE, *SOON) as (address, _), connected(address) as slow:
        slow.sendall(HEAD + b"Content-Length: 9\r\n\r\n{")
        assert b"the body did not arrive within 0.2 s" in answer(slow)


def test_an_answer_may_take_as_long_as_it_takes():
    with server(*STORE, *SOON) as (address, _), client_of(address) as client:
        worker = client.post("/worker/join", json={}).json()["worker"]
        asked = client.post("/worker/claim", json={"worker": worker, "wait": 1})
        assert asked.json() == {"jobs": []}
        for _ in range(3):
            assert client.get("/api/status").status_code == 200


def test_an_answer_that_is_not_read_is_not_waited_for():
    with server(*STORE, *SOON) as (address, _), ExitStack() as stack:
        for each in [stack.enter_context(ask_and_never_read(address)) for _ in range(5)]:
            assert closed_by_server(each)


def test_of_too_many_connections_those_that_do_not_read_make_room():
    with (
        server(*STORE, "--request-timeout", "1000", "--max-connections", "3") as (address, _),
        ExitStack() as stack,
    ):
        unread = [stack.enter_context(ask_and_never_read(address)) for _ in range(3)]
        with client_of(address) as client:
            # Room is made once the answers fill the buffers.
            assert any(client.get("/healthz").status_code == 200 for _ in range(1000))
        assert closed_by_server(unread[0])


class Unread:
    """A transport whose client has left `size` bytes unread."""

    def __init__(self, of):
        self.size = 0
        self.aborted = False
        self.socket = of

    def get_extra_info(self, name):
        return self.socket if name == "socket" else None

    def set_write_buffer_limits(self, high):
        assert high == 0

    def get_write_buffer_size(self):
        return self.size

    def abort(self):
        self.aborted = True


class Timers:
    """A loop that keeps what it is told to call later."""

    def __init__(self):
        self.calls = []

    def call_later(self, _, call):
        self.calls.append(call)
        return self

    def cancel(self):
        self.calls.pop()


@pytest.mark.parametrize(("read", "aborted"), [(LEAST_READ, False), (LEAST_READ - 1, True)])
def test_a_client_that_goes_on_reading_has_time(read, aborted, stack):
    loop: Any = Timers()
    transport: Any = Unread(stack.enter_context(socket.socket()))
    config = Config("builtins:print", log_config=None)
    connection = bounded(1.0, 9)(config, ServerState(), {}, loop)
    connection.connection_made(transport)
    transport.size = 10 * LEAST_READ
    connection.pause_writing()
    for _ in range(3):
        transport.size -= LEAST_READ
        loop.calls.pop()()
        assert not transport.aborted
    transport.size -= read
    loop.calls.pop()()
    assert (transport.aborted, len(loop.calls)) == (aborted, 0 if aborted else 1)


@pytest.mark.parametrize("withheld", [HEAD + b"Content-Length: 9\r\n\r\n{", HEAD + b"\r\n"])
def test_a_refused_request_closes_its_connection(tokens, withheld):
    with (
        server(*STORE, "--request-timeout", "1000", *tokens) as (address, _),
        connected(address) as slow,
    ):
        slow.sendall(withheld)
        refusal = answer(slow)
        assert refusal.startswith(b"HTTP/1.1 401 ")
        assert b"\r\nconnection: close\r\n" in refusal.lower()


def test_of_too_many_connections_the_one_that_sends_longest_makes_room():
    with server(*STORE, "--max-connections", "3") as (address, _), ExitStack() as stack:
        halves = []
        for _ in range(3):
            halves.append(stack.enter_context(connected(address)))
            halves[-1].sendall(HEAD)
        with client_of(address) as client:
            assert client.get("/api/status").status_code == 200
        assert answer(halves[0]) == b""
        halves[1].sendall(b"Connection: close\r\nContent-Length: 13\r\n\r\n" + b'{"task": "a"}')
        assert json.loads(answer(halves[1]).partition(b"\r\n\r\n")[2])["created"]


def test_a_connection_too_many_is_refused_where_all_others_are_in_use():
    with (
        server(*STORE, "--max-connections", "1") as (address, _),
        client_of(address) as client,
        client.stream("GET", "/api/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == "event: snapshot"
        with connected(address) as late:
            assert answer(late).startswith(b"HTTP/1.1 503 ")


def test_an_address_with_more_than_its_share_makes_room_for_another():
    listen = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server(*STORE, "--max-connections", "3") as (address, _), ExitStack() as stack:
        held = [stack.enter_context(connected(address)) for _ in range(3)]
        for each in held:
            each.sendall(listen)
            assert each.recv(15) == b"HTTP/1.1 200 OK"
        other = stack.enter_context(connected_from(address, "127.0.0.2"))
        other.sendall(listen)
        assert other.recv(15) == b"HTTP/1.1 200 OK"
        answer(held[2])  # ends
        with connected_from(address, "127.0.0.2") as late:
            assert answer(late).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("2001:db8::1", "2001:db8::2:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_the_addresses_of_one_network_share(one, other, same):
    assert (address_of(one) == address_of(other)) is same


@pytest.mark.parametrize(
    ("option", "value"),
    [("--request-timeout", "0"), ("--request-timeout", "nan"), ("--max-connections", "0")],
)
def test_a_bound_that_is_none_is_refused(option, value):
    assert value in refused(2, "serve", *STORE, option, value)
