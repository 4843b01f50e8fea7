"""Requests that never arrive, over real sockets: before anybody has shown a token."""

import json
import socket
from contextlib import ExitStack

import pytest

from tests.cli.command_line import refused
from tests.server.process import LONGEST_WAIT, client_of, server
from tests.server.test_serve import peer

STORE = ("--store", "memory://")
SOON = ("--request-timeout", "0.2")
TOKEN = "t" * 32
HEAD = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def tokens(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"operate {TOKEN}")
    file.chmod(0o600)
    return ("--token-file", str(file))


def connected(address):
    return socket.create_connection(peer(address), timeout=LONGEST_WAIT)


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


@pytest.mark.parametrize(
    ("option", "value"),
    [("--request-timeout", "0"), ("--request-timeout", "nan"), ("--max-connections", "0")],
)
def test_a_bound_that_is_none_is_refused(option, value):
    assert value in refused(2, "serve", *STORE, option, value)
