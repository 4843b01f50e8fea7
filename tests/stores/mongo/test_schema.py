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
    assert there["status_1_created_at_1"] == ["status", "created_at"]
    assert there["next_retry_at_1"] == ["next_retry_at"]
    assert there["status_1_updated_at_1"] == ["status", "updated_at"]
    text = DOCUMENTATION.read_text(encoding="utf-8")
    for collection, indexes in schema.wanted(store._connection):
        assert schema.missing_from(await schema.indexes_of(collection), indexes) == []
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


PUBLIC = (["status", "created_at"], ["next_retry_at"], ["status", "updated_at"])


@pytest.mark.parametrize("named", [{}, {"name": "theirs"}])
async def test_the_public_indexes_of_another_program_serve_whatever_their_names(
    store_url, tasks, clock, named
):
    for fields in PUBLIC:
        name = {"name": f"theirs_{'_'.join(fields)}"} if named else {}
        tasks.create_index([(field, 1) for field in fields], **name)
    before = {each["name"] for each in tasks.list_indexes()}
    async with handle(store_url, clock) as store:
        there = list(tasks.list_indexes())
        findings = await store.doctor()
    assert before <= {each["name"] for each in there}
    assert [sum(list(each["key"]) == fields for each in there) for fields in PUBLIC] == [1, 1, 1]
    assert [each.sentence for each in findings if each.level == "bad"] == []


async def test_another_program_may_create_the_public_indexes_after_mulligan(store, tasks):
    before = tasks.index_information()
    for fields in PUBLIC:
        tasks.create_index([(field, 1) for field in fields])
    assert tasks.index_information() == before


@pytest.mark.parametrize(
    "theirs",
    [
        ([("next_retry_at", 1)], {"partialFilterExpression": {"status": "pending"}}),
        ([("status", 1), ("created_at", -1)], {}),
        ([("mulligan.unique_queue", 1), ("mulligan.unique_key", 1)], {}),
        ([("payload.customer", 1)], {"name": "pending"}),
    ],
)
async def test_an_index_that_differs_from_ours_stands_beside_it(store_url, tasks, clock, theirs):
    fields, options = theirs
    name = tasks.create_index(fields, **{"name": "theirs"} | options)
    before = tasks.index_information()[name]
    async with handle(store_url, clock) as store:
        assert tasks.index_information()[name] == before
        findings = await store.doctor()
    assert [each.sentence for each in findings if each.level == "bad"] == []


async def test_documents_of_another_layout_are_refused(store_url, database, clock):
    async with handle(store_url, clock):
        pass
    database["tasks_meta"].update_one({"_id": "layout"}, {"$set": {"version": 2}})
    store = make_store(store_url, clock=clock)
    with pytest.raises(StoreError, match="layout 2, and this release knows 1"):
        await store.open()
    await store.close()
