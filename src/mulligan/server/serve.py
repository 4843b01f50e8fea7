"""Runs the server in this process until it is stopped."""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn
from msgspec import Struct

from mulligan.app import Mulligan
from mulligan.core.errors import InvalidError, MulliganError
from mulligan.server.application import make_application
from mulligan.server.attempts import LONGEST_PAUSE
from mulligan.server.bodies import REQUEST_WITHIN
from mulligan.server.connections import MAX_CONNECTIONS, ClosesRefused, bounded
from mulligan.server.guard import Guard, is_loopback
from mulligan.server.redaction import Redaction
from mulligan.server.service import Service
from mulligan.server.tokens import Tokens, read_tokens
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.server")
# How long requests under way may take when the server stops.
STOP_WITHIN = 10
BACKLOG = 2048
# What the system keeps of the answers to one client that does not read: memory that is not ours.
SEND_BUFFER = 256 * 1024


class ServerOptions(Struct, frozen=True):
    """The options of the server."""

    host: str = "127.0.0.1"
    port: int = 8420
    token_file: Path | None = None
    read_only: bool = False
    allow_hosts: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    request_within: float = REQUEST_WITHIN
    max_connections: int = MAX_CONNECTIONS
    longest_pause: float = LONGEST_PAUSE


def read_and_check(options: ServerOptions) -> Tokens | None:
    """Read the tokens; refuses to serve other machines without any."""
    if options.token_file is not None:
        return read_tokens(options.token_file)
    if not is_loopback(options.host):
        raise InvalidError(
            f"host {options.host!r} is reached by other machines, which needs tokens;"
            " give --token-file, or leave --host out to serve this machine only"
        )
    return None


def bind(options: ServerOptions) -> socket.socket:
    """The listening socket; refuses an address that is in use or not this machine's."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        made = socket.create_server((options.host, options.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise MulliganError(
            f"cannot listen on {options.host} port {options.port}: {reason};"
            " choose another --host or --port"
        ) from error
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # its connections inherit it
    return made


def url_of(listening: socket.socket) -> str:
    """The URL of the server."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A server that ends long polls and streams as soon as it is stopped.

    It does not raise the signal again afterwards: stopping is no failure.
    """

    def __init__(
        self, config: uvicorn.Config, service: Service, tell_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._tell_ready = tell_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take requests, and say so: from here on SIGTERM finishes what is under way."""
        await super().startup(sockets)
        log.info("ready for requests")
        self._tell_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """First: finish what is under way. Second: stop at once."""
        self._loop.call_soon_threadsafe(self._service.stop)
        self.force_exit = self.should_exit
        self.should_exit = True


async def run(
    app: Mulligan,
    store: Store,
    options: ServerOptions,
    tokens: Tokens | None,
    listening: socket.socket,
    *,
    declares: bool,
    tell_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve on the socket until stopped, then finish what is under way."""
    hosts = (options.host, *options.allow_hosts)
    guard = Guard(tokens, hosts=hosts, read_only=options.read_only)
    redaction = Redaction((*options.redact, *app.redact), app.tasks if declares else {})
    service = Service(
        store,
        app,
        guard,
        declares=declares,
        redaction=redaction,
        request_within=options.request_within,
        longest_pause=options.longest_pause,
    )
    config = uvicorn.Config(
        ClosesRefused(make_application(service)),
        access_log=False,
        http=bounded(options.request_within, options.max_connections),
        lifespan="off",
        log_config=None,
        loop="none",
        proxy_headers=False,  # a request must not choose its own client address
        server_header=False,
        timeout_graceful_shutdown=STOP_WITHIN,
        ws="none",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    async with service.running():
        await Server(config, service, tell_ready).serve(sockets=[listening])
    log.info("stopped")
