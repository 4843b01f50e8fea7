"""python -m tests.databases run [--stores a,b] -- COMMAND: run a command with the servers up.

Each store's server is started unless its URL is set already, and the command finds the URLs in
MULLIGAN_TEST_REDIS_URL, MULLIGAN_TEST_POSTGRES_URL and MULLIGAN_TEST_MONGO_URL. A server that
cannot be had does not stop the others; its tests are skipped, and the run says so at its end.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

from tests.databases import SHARED_SERVERS, Unavailable, unavailable_variable, url_variable
from tests.databases._server import leash

STORES = ("memory", "sqlite", *SHARED_SERVERS)


def main() -> int:
    """Bring the servers up, run the command, take them down; its exit code is ours."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(128 + signal.SIGHUP))
    environment = os.environ | {"MULLIGAN_TEST_STORES": ",".join(arguments.stores)}
    with ExitStack() as servers:
        for store in arguments.stores:
            if store in SHARED_SERVERS and url_variable(store) not in environment:
                environment |= _bring_up(store, servers)
        return _run(arguments.command, environment)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.databases", description=__doc__)
    run = parser.add_subparsers(required=True).add_parser("run")
    run.add_argument("--stores", type=_stores, default=list(STORES))
    run.add_argument("command", nargs="+")
    return parser.parse_args()


def _stores(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in STORES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(STORES)}")
    return names


def _bring_up(store: str, servers: ExitStack) -> dict[str, str]:
    began = time.monotonic()
    try:
        server = servers.enter_context(SHARED_SERVERS[store]())
    except Unavailable as error:
        print(f"{store}: not available: {error}", file=sys.stderr, flush=True)
        return {unavailable_variable(store): str(error)}
    took = f"{time.monotonic() - began:.1f} s"
    print(f"{store}: {server.url} ({took})", file=sys.stderr, flush=True)
    return {url_variable(store): server.url}


def _run(command: list[str], environment: dict[str, str]) -> int:
    process = subprocess.Popen([*leash(), *command], env=environment)
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the command got it too, and decides what to do
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
