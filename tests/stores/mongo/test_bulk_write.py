"""Many documents in one write, and writes that collide."""

import pytest
from pymongo import InsertOne, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

from mulligan.core.errors import StoreError
from mulligan.stores.mongo import bulk_write
from mulligan.stores.mongo.bulk_write import Change, statements
from mulligan.stores.mongo.document import TO_WRITE
from tests.contract.builders import claim, done, jobs, names


class Colliding:
    """The tasks as a process sees them whose first writes collide with those of another."""

    def __init__(self, tasks, *failures):
        self.tasks = tasks
        self.failures = list(failures)
        self.sent = []

    def __getattr__(self, name):
        return getattr(self.tasks, name)

    async def bulk_write(self, statements, *, ordered):
        """Fail with what comes next; if that concerns the first statement, the others are done."""
        self.sent.append(len(statements))
        if not self.failures:
            return await self.tasks.bulk_write(statements, ordered=ordered)
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        written = dict.fromkeys(("nInserted", "nUpserted", "nMatched", "nRemoved"), 0)
        errors = [{"index": 0, "errmsg": "no", **failure}]
        for at, statement in list(enumerate(statements))[1:]:
            try:
                reply = await self.tasks.bulk_write([statement])
                written = {
                    name: count + reply.bulk_api_result[name] for name, count in written.items()
                }
            except BulkWriteError as error:
                errors.append(error.details["writeErrors"][0] | {"index": at})
        raise BulkWriteError(written | {"writeErrors": errors, "writeConcernErrors": []})


DEADLOCK = {"code": 8000, "errmsg": "deadlock detected"}


CONFLICT = {"code": 112, "errmsg": "Write conflict during plan execution"}


@pytest.mark.parametrize("failure", [DEADLOCK, CONFLICT])
async def test_a_statement_that_collided_is_sent_again_without_the_others(store, failure):
    await store.enqueue(jobs("a", "b", "c"))
    claims = (await claim(store, demand=3)).claims
    tasks = store._connection.tasks = Colliding(store._connection.tasks, failure, failure)
    outcomes = [done(each, each.id.encode()) for each in claims]
    assert await store.commit(outcomes) == ["written"] * 3
    assert tasks.sent == [3, 1, 1]
    assert [(await store.get(name)).result for name in "abc"] == [b"a", b"b", b"c"]


async def test_a_command_that_collided_as_a_whole_is_sent_again(store):
    await store.enqueue(jobs("a"))
    refusal = OperationFailure("deadlock detected", 8000, DEADLOCK)
    store._connection.tasks = Colliding(store._connection.tasks, refusal)
    assert names(await claim(store)) == ["a"]


async def test_an_insert_that_collided_is_sent_again_and_one_that_was_there_is_not(store):
    await store.enqueue(jobs("b"))
    store._connection.tasks = Colliding(store._connection.tasks, DEADLOCK)
    answers = await store.enqueue(jobs("a", "b"))
    assert [answer.created for answer in answers] == [True, False]


@pytest.mark.parametrize("failure", [{"code": 2}, OperationFailure("no", 2, {"code": 2})])
async def test_what_failed_for_another_reason_is_raised(store, failure):
    tasks = store._connection.tasks = Colliding(store._connection.tasks, failure)
    with pytest.raises(StoreError, match="no"):
        await store.enqueue(jobs("a"))
    assert len(tasks.sent) == 1


@pytest.mark.parametrize("failure", [DEADLOCK, OperationFailure("", 8000, DEADLOCK)])
async def test_a_write_that_collides_again_and_again_is_given_up(store, failure):
    store._connection.tasks = Colliding(store._connection.tasks, *[failure] * bulk_write.TRIES)
    with pytest.raises(StoreError):
        await store.enqueue(jobs("a"))


TRANSIENT = {"code": 251, "errmsg": "no", "errorLabels": ["TransientTransactionError"]}


ONE_DOCUMENT = {
    "insert_one": ({"_id": "b"},),
    "update_one": ({"_id": "a"}, {"$inc": {"n": 1}}),
    "replace_one": ({"_id": "a"}, {"n": 2}),
    "delete_one": ({"_id": "a"},),
    "find_one_and_update": ({"_id": "a"}, {"$inc": {"n": 1}}),
    "find_one_and_delete": ({"_id": "a"},),
}


def failing(monkeypatch, name, *failures):
    """Have the driver fail so often before it does what it is asked; how often it was asked."""
    asked = []
    left = [OperationFailure("no", each["code"], each) for each in failures]
    real = getattr(AsyncCollection, name)

    async def ask(self, *args, **options):
        asked.append(args)
        if left:
            raise left.pop()
        return await real(self, *args, **options)

    monkeypatch.setattr(AsyncCollection, name, ask)
    return asked


@pytest.mark.parametrize("failure", [DEADLOCK, CONFLICT, TRANSIENT], ids=lambda each: each["code"])
@pytest.mark.parametrize("name", ONE_DOCUMENT)
async def test_a_statement_about_one_document_that_collided_is_sent_again(
    store, tasks, monkeypatch, name, failure
):
    tasks.insert_one({"_id": "a", "n": 1})
    before = list(tasks.find())
    asked = failing(monkeypatch, name, failure, failure)
    copied = store._connection.tasks.with_options(TO_WRITE)
    await getattr(copied, name)(*ONE_DOCUMENT[name])
    assert len(asked) == 3
    assert list(tasks.find()) != before


@pytest.mark.parametrize("failures", [[{"code": 2}], [DEADLOCK] * bulk_write.TRIES], ids=len)
async def test_a_statement_about_one_document_that_fails_otherwise_or_for_ever_is_given_up(
    store, monkeypatch, failures
):
    asked = failing(monkeypatch, "find_one_and_update", *failures)
    with pytest.raises(StoreError, match="refused"):
        await store.enqueue(jobs("a"))
    assert len(asked) == len(failures)


def a_change(name, token, fields=None):
    return Change(name, {"status": "pending"}, {"$set": fields or {"n": 1}}, token)


def test_changes_that_are_alike_are_one_statement_and_others_stand_in_the_order_of_keys():
    changes = [a_change("c", 3 * 4096, {"n": 2}), a_change("b", 2 * 4096), a_change("a", 4096)]
    first, second = statements(changes, "stamp")
    assert first._filter == {
        "_id": {"$in": ["a", "b"]},
        "status": "pending",
        "mulligan.token": {"$in": [4096, 2 * 4096]},
    }
    assert second._filter == {"_id": "c", "status": "pending", "mulligan.token": 3 * 4096}


def test_documents_whose_tokens_might_be_taken_for_each_other_are_written_one_by_one():
    changes = [a_change("a", 1), a_change("b", 2), a_change("c", 4096), a_change("d", 2 * 4096)]
    asked = [each._filter["_id"] for each in statements(changes, "stamp")]
    assert asked == ["a", "b", {"$in": ["c", "d"]}]


@pytest.mark.parametrize(
    ("statement", "failure", "apart"),
    [
        (InsertOne({"_id": "a"}), DEADLOCK, True),
        (InsertOne({"_id": "a"}), CONFLICT, False),
        (UpdateOne({"_id": "a"}, {"$set": {"n": 1}}), DEADLOCK, False),
    ],
)
def test_only_inserts_that_deadlocked_are_sent_again_far_apart(statement, failure, apart):
    assert bulk_write.insert_deadlock([statement], {0: failure}) is apart
