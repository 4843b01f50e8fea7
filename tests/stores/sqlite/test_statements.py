"""Files of statements: their format, and that the store's own are valid and described."""

import re
from importlib import import_module
from importlib.resources import files

import pytest

from mulligan.stores.sqlite.statements import FormatError, Part, fill, load, parse, source
from tests.stores.sqlite.kit import SQL, explain

FILE = """\
-- What the file is about.

-- name: first
-- ?1 what it is given
SELECT a
FROM b
-- a comment in between
WHERE c = ?

-- fragment: columns
d, {more}

-- name: second
SELECT {columns}
"""


def test_a_statement_has_a_name_a_description_and_its_sql():
    first, columns, second = parse(FILE)
    assert first == Part(
        "name",
        "first",
        "-- ?1 what it is given\n-- a comment in between\n",
        "SELECT a\nFROM b\nWHERE c = ?",
    )
    assert columns == Part("fragment", "columns", "", "d, {more}")
    assert (second.kind, second.name) == ("name", "second")


def test_a_name_in_braces_stands_for_a_fragment_or_a_list():
    statements = fill("room", parse(FILE), {"more": "e, f"})
    assert statements == {"first": "SELECT a\nFROM b\nWHERE c = ?", "second": "SELECT d, e, f"}


def test_a_statement_that_is_not_there_is_named():
    with pytest.raises(FormatError, match=r"sql/room\.sql has no statement 'third', but first, s"):
        fill("room", parse(FILE), {"more": "e"})["third"]


@pytest.mark.parametrize(
    ("text", "lists", "message"),
    [
        ("SELECT 1", {}, "'SELECT 1' belongs to no statement; begin it with: -- name: …"),
        ("-- name: a\n-- name: b\nSELECT 1", {}, "'a' is empty"),
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2", {}, "'a' is there twice"),
        ("-- fragment: a\nb\n-- name: c\n{a}", {"a": "d"}, "'a' is there twice"),
        ("-- name: a\nSELECT {b}", {}, "nothing is known that {b} could stand for"),
        ("-- name: a\nSELECT {b}\n-- fragment: b\nc", {}, "nothing is known that {b}"),
        ("-- name: a\nSELECT 1", {"b": "c"}, "b stands nowhere"),
        ("-- name: a\nSELECT 1\n-- fragment: b\nc", {}, "b stands nowhere"),
    ],
)
def test_a_file_that_says_something_else_is_refused(text, lists, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        fill("room", parse(text), lists)


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(FileNotFoundError):
        load("nowhere")


def test_each_file_belongs_to_the_module_of_its_name():
    found = {each.name for each in files("mulligan.stores.sqlite").joinpath("sql").iterdir()}
    assert found == {f"{room}.sql" for room in SQL}


@pytest.mark.parametrize("room", SQL)
def test_a_module_uses_each_of_its_statements(room):
    module = vars(import_module(f"mulligan.stores.sqlite.{room}"))
    used = {text for name, text in module.items() if name.isupper() and isinstance(text, str)}
    assert set(SQL[room].values()) <= used


@pytest.mark.parametrize(
    ("room", "part"),
    [(room, part) for room in SQL for part in parse(source(room)) if part.kind == "name"],
    ids=lambda each: each.name if isinstance(each, Part) else each,
)
def test_every_statement_is_valid_and_describes_its_parameters(db, room, part):
    assert not re.search(r"\?\d", part.sql), "the driver wants them plain or by name"
    numbered = {f"?{number}" for number in range(1, part.sql.count("?") + 1)}
    for parameter in numbered | set(re.findall(r":\w+", part.sql)):
        assert re.search(rf"{re.escape(parameter)}\b", part.header), "the header names each"
    explain(db, room, part.name)
