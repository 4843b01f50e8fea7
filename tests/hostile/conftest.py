"""An app on each store in turn."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mulligan import Mulligan
from tests.hostile.worker import QUICK


@pytest.fixture
async def app(store_url) -> AsyncIterator[Mulligan]:
    """An app without tasks on an empty store."""
    made = Mulligan(store_url, settings=QUICK)
    yield made
    await asyncio.to_thread(made.close)
