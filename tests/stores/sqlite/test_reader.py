"""Who only reads a file."""

from mulligan.stores.sqlite import SqliteStore
from tests.contract.builders import jobs


async def test_a_file_that_others_have_open_is_read_through_its_log_by_any_name(store, path, url):
    link = path.with_name("link.db")
    link.symlink_to(path)
    await store.enqueue(jobs("a"))
    for name in (url, f"sqlite:///{link}"):
        reader = SqliteStore(name)
        await reader.open(read_only=True)
        assert await reader.get("a") is not None
        await reader.close()
