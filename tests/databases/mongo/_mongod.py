from __future__ import annotations

import pymongo
from pymongo.errors import PyMongoError

from tests.databases._server import LOOPBACK, Server, accepts, leash


class MongodServer(Server):
    """A `mongod` of the machine's own, standing alone."""

    name = "mongo"

    @property
    def url(self) -> str:
        return f"mongodb://{LOOPBACK}:{self.port}/?directConnection=true&retryWrites=false"

    def prepare(self) -> None:
        (self.folder / "data").mkdir()

    def launch(self) -> None:
        place = ["--bind_ip", LOOPBACK, "--port", str(self.port), "--nounixsocket"]
        self.spawn([*leash(), "mongod", *place, "--dbpath", self.folder / "data"])

    def answers(self) -> bool:
        return accepts(self.port) and pings(self.url)


def pings(url: str) -> bool:
    """Whether a MongoDB answers at a URL."""
    try:
        client: pymongo.MongoClient[dict[str, object]]
        with pymongo.MongoClient(url, serverSelectionTimeoutMS=2000) as client:
            client.admin.command("ping")
    except PyMongoError:
        return False
    return True
