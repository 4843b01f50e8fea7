"""Collections, indexes and the layout."""

from pathlib import Path

import pytest
from pymongo.asynchronous.collection import AsyncCollection

from mulligan.core.errors import StoreError
from mulligan.stores import make_store
from mulligan.stores.mongo import schema
from tests.store_kit import handle

DOCUMENTATION = Path(__file__).parents[3] / "docs/reference/stores/mongodb.md"


async def test_every_index_is_there_and_documented(store, tasks):
    there = {each["name"]: list(each["key"]) for each in tasks.list_indexes()}
    assert there["status_created"] == ["status", "created_at"]
    assert there["next_retry"] == ["next_retry_at"]
    assert there["status_updated"] == ["status", "updated_at"]
    text = DOCUMENTATION.read_text(encoding="utf-8")
    for collection, indexes in schema.wanted(store._connection):
        assert await schema.missing_from(collection, indexes) == []
        assert f"`{collection.name}`" in text
        for index in indexes:
            name, fields = index.document["name"], ", ".join(index.document["key"])
            assert f"| `{name}` | {fields}" in text or f"`{name}` ({fields})" in text, name


async def test_no_two_indexes_of_a_collection_are_on_the_same_fields(store):
    """MongoDB 4.4 refuses a second one that has only another filter."""
    for _, indexes in schema.wanted(store._connection):
        fields = [tuple(index.document["key"].items()) for index in indexes]
        assert len(set(fields)) == len(fields)


async def test_opening_what_is_up_to_date_reads_each_thing_once_and_writes_nothing(
    store_url, store, clock, monkeypatch
):
    sent = []

    def noted(name):
        real = getattr(AsyncCollection, name)

        def call(self, *args, **options):
            sent.append((self.name, name))
            return real(self, *args, **options)

        monkeypatch.setattr(AsyncCollection, name, call)

    for name in ("find", "list_indexes", "create_indexes", "drop_index", "update_one"):
        noted(name)
    async with handle(store_url, clock):
        pass
    listed = [
        (collection.name, "list_indexes") for collection, _ in schema.wanted(store._connection)
    ]
    assert sent == [("tasks_meta", "find"), *listed]


async def test_an_index_that_an_operator_dropped_is_created_when_a_store_is_opened(
    store_url, store, tasks, clock
):
    tasks.drop_index("expires")
    async with handle(store_url, clock):
        assert "expires" in {each["name"] for each in tasks.list_indexes()}


async def test_documents_of_another_layout_are_refused(store_url, database, clock):
    async with handle(store_url, clock):
        pass
    database["tasks_meta"].update_one({"_id": "layout"}, {"$set": {"version": 2}})
    store = make_store(store_url, clock=clock)
    with pytest.raises(StoreError, match="layout 2, and this release knows 1"):
        await store.open()
    await store.close()
