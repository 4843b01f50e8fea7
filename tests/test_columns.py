"""New jobs by column."""

import pytest
from msgspec.structs import replace

from mulligan.core.job import NewJob, all_created
from mulligan.stores.columns import Columns, columns_of

FIRST = NewJob("a", "mail", "send", b"{}", "EU", 2, 1.5)
OTHER = {
    "queue": "other", "task": "other", "region": "US", "priority": 0, "delay": 0.0,
    "unique_key": "k", "concurrency_key": "k", "concurrency_limit": 2, "expires": 9.0,
    "unique_in": "other", "awaits": 1, "gather": "g", "place": 1,
}  # fmt: skip
WHERE_AND_WHEN = ("queue", "task", "region", "priority", "delay")


def test_there_is_a_column_for_every_field():
    assert Columns._fields == NewJob.__struct_fields__
    assert {"id", "body", *OTHER} == set(Columns._fields)


def test_jobs_that_differ_in_id_and_body_are_alike():
    columns = columns_of([FIRST, replace(FIRST, id="b", body=b"[]")])
    assert (columns.id, columns.body) == (("a", "b"), (b"{}", b"[]"))
    assert columns.are_alike
    assert columns.are_plain


@pytest.mark.parametrize("field", OTHER)
def test_jobs_that_differ_in_anything_else_are_not(field):
    columns = columns_of([FIRST, FIRST, replace(FIRST, **{field: OTHER[field]})])
    assert not columns.are_alike
    assert columns.are_plain == (field in WHERE_AND_WHEN)


def test_jobs_may_be_alike_in_what_only_some_have():
    columns = columns_of([replace(FIRST, gather="g"), replace(FIRST, id="b", gather="g")])
    assert columns.are_alike
    assert not columns.are_plain


def test_jobs_that_are_all_new_are_told_as_such():
    answers = all_created(["a", "b"])
    assert answers == [("a", True), ("b", True)]
    assert [(answer.id, answer.created) for answer in answers] == answers
