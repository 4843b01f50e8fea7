"""Runs the server in this process until it is told to stop."""

import asyncio
import logging
import socket
from pathlib import Path
from types import FrameType

import uvicorn
from msgspec import Struct

from mulligan.app import Mulligan
from mulligan.core.errors import InvalidError, MulliganError
from mulligan.server.application import make_application
from mulligan.server.connections import MAX_CONNECTIONS, REQUEST_WITHIN, bounded
from mulligan.server.guard import Guard, is_loopback
from mulligan.server.redaction import Redaction
from mulligan.server.service import Service
from mulligan.server.tokens import Tokens, read_tokens
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.server")
# How long requests under way may take when the server is told to stop.
STOP_WITHIN = 10
BACKLOG = 2048


class Wanted(Struct, frozen=True):
    """How the server was asked to run."""

    host: str = "127.0.0.1"
    port: int = 8420
    token_file: Path | None = None
    read_only: bool = False
    allow_hosts: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    request_within: float = REQUEST_WITHIN
    max_connections: int = MAX_CONNECTIONS


def read_and_check(wanted: Wanted) -> Tokens | None:
    """The tokens; refuses to serve other machines without any."""
    if wanted.token_file is not None:
        return read_tokens(wanted.token_file)
    if not is_loopback(wanted.host):
        raise InvalidError(
            f"host {wanted.host!r} is reached by other machines, which needs tokens;"
            " give --token-file, or leave --host out to serve this machine only"
        )
    return None


def bind(wanted: Wanted) -> socket.socket:
    """The listening socket; refuses an address that is taken or not ours."""
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    try:
        return socket.create_server((wanted.host, wanted.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise MulliganError(
            f"cannot listen on {wanted.host} port {wanted.port}: {reason};"
            " choose another --host or --port"
        ) from error


def address(listening: socket.socket) -> str:
    """The URL at which it is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A server that lets go of long polls and streams as soon as it is told to stop.

    Being told to stop is no failure: the signal is not raised again afterwards.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """First: finish what is under way. Second: stop at once."""
        self._loop.call_soon_threadsafe(self._service.stop)
        self.force_exit = self.should_exit
        self.should_exit = True


async def run(
    app: Mulligan,
    store: Store,
    wanted: Wanted,
    tokens: Tokens | None,
    listening: socket.socket,
    *,
    declares: bool,
) -> None:
    """Serve on the socket until told to stop, then finish what is under way."""
    hosts = (wanted.host, *wanted.allow_hosts)
    guard = Guard(tokens, hosts=hosts, read_only=wanted.read_only)
    redaction = Redaction(wanted.redact, app.tasks if declares else {})
    service = Service(
        store,
        app,
        guard,
        declares=declares,
        redaction=redaction,
        request_within=wanted.request_within,
    )
    config = uvicorn.Config(
        make_application(service),
        access_log=False,
        http=bounded(wanted.request_within, wanted.max_connections),
        lifespan="off",
        log_config=None,
        loop="none",
        proxy_headers=False,  # who a request comes from must not be for the request to say
        server_header=False,
        timeout_graceful_shutdown=STOP_WITHIN,
        ws="none",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    async with service.running():
        log.info("ready for requests")
        await Server(config, service).serve(sockets=[listening])
    log.info("stopped")
