"""MongoDB for tests: a `mongod` on the PATH, or DocumentDB behind a front of our own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.databases.mongo._documentdb import DocumentDBServer
from tests.databases.mongo._mongod import MongodServer

if TYPE_CHECKING:
    from tests.databases._server import Server

__all__ = ["DocumentDBServer", "MongodServer", "mongo_server"]


def mongo_server() -> Server:
    """The MongoDB that this machine can have, not yet started."""
    return MongodServer() if shutil.which("mongod") else DocumentDBServer()
