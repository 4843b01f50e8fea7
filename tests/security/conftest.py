"""A server over a store in memory, as the tests of the server have it."""

from tests.server.conftest import client, serve, store

__all__ = ["client", "serve", "store"]
