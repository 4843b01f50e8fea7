"""The contract suite runs on four shards of memory too.

What a test names lives in the first of them, as in an app that had one store and has grown: so all
that is asked of four shards and put together again is held to the contract exactly. Jobs that are
spread over shards are in `tests/stores/shards`.
"""

from collections.abc import AsyncIterator

import pytest

from tests.reuse import REUSED, reused_url
from tests.store_kit import SHARDS, STORES, fresh_url, require

# What a plan allows is divided among shards, and so these tests see the part of the first.
DIVIDED: frozenset[str] = frozenset()


@pytest.fixture(params=(*STORES, "shards"))
async def store_url(request, tmp_path) -> AsyncIterator[str]:
    """The URL of an empty store, of each engine in turn; new if the test opens it itself."""
    name = request.param
    if name == "shards":
        if request.node.originalname in DIVIDED:
            pytest.skip("caps and budgets are divided among shards")
        yield SHARDS
        return
    require(name)
    reuse = "store" in request.fixturenames and name in REUSED
    with_url = reused_url(name) if reuse else fresh_url(name, tmp_path)
    async with with_url as url:
        yield url
