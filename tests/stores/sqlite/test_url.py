"""What the URL says."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.stores.sqlite import SqliteStore
from tests.contract.builders import claim, jobs, names


async def test_a_relative_path_is_taken_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("sqlite:///here.db")
    monkeypatch.chdir("/")
    await store.open()
    await store.close()
    assert (tmp_path / "here.db").exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite://?durability=normal"])
async def test_a_database_in_memory_needs_no_thread(url, clock):
    store = SqliteStore(url, clock)
    await store.open()
    await store.enqueue(jobs("a"))
    assert names(await claim(store)) == ["a"]
    assert store._runner._thread is None
    await store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://jobs.db", "is not a SQLite URL; write sqlite:///relative.db"),
        ("sqlite:///jobs.db?speed=high", "option 'speed' .* is unknown"),
        ("sqlite:///jobs.db?durability=none", "durability 'none' .* is not one of full, normal"),
    ],
)
def test_a_url_that_means_nothing_is_refused(url, message):
    with pytest.raises(InvalidError, match=message):
        SqliteStore(url)
