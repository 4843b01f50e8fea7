"""An empty store behind the app of the tests."""

import pytest

from mulligan.stores.memory import MemoryStore
from tests.cli import apps


@pytest.fixture
def store(monkeypatch) -> MemoryStore:
    """The store of tests.cli.apps:app, in memory and empty."""
    made = MemoryStore()
    monkeypatch.setattr(apps.app, "_memory", made)
    return made


@pytest.fixture
def url(tmp_path) -> str:
    """The URL of a SQLite store that is not there yet."""
    return f"sqlite:///{tmp_path}/jobs.db"
