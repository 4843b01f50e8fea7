"""The table of fields and the structs that carry them agree."""

from typing import Any, get_type_hints

import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields

from mulligan.core.fields import CLAIM, FIELDS, JOB, NEW_JOB, OPTIONS, Carrier, fields_of, names_of
from mulligan.core.job import Claim, Job, NewJob, Status

STRUCTS: dict[Carrier, type[Any]] = {NEW_JOB: NewJob, CLAIM: Claim, JOB: Job}
TYPES: dict[str, Any] = {
    "text": str,
    "integer": int,
    "flag": bool,
    "bytes": bytes,
    "time": float,
    "seconds": float,
}


@pytest.mark.parametrize("carrier", STRUCTS)
def test_a_struct_carries_the_fields_that_the_table_says_and_no_others(carrier):
    assert set(STRUCTS[carrier].__struct_fields__) == set(names_of(carrier))


@pytest.mark.parametrize("carrier", STRUCTS)
def test_a_field_has_the_type_that_the_table_says(carrier):
    hints = get_type_hints(STRUCTS[carrier])
    for field in fields_of(carrier):
        declared = str if hints[field.name] is Status else hints[field.name]
        assert declared in (TYPES[field.kind], TYPES[field.kind] | None), field.name


@pytest.mark.parametrize("carrier", [NEW_JOB, JOB])
def test_a_default_of_a_struct_is_that_of_the_table(carrier):
    for field, stored in ((f, by_name(carrier)[f.name]) for f in fields_of(carrier)):
        if stored.default is not NODEFAULT:
            assert stored.default == field.default, field.name


def test_every_option_of_a_new_job_may_be_left_out():
    given = by_name(NEW_JOB)
    assert all(given[name].default is not NODEFAULT for name in OPTIONS)


def test_no_field_is_named_twice():
    assert len({field.name for field in FIELDS}) == len(FIELDS)


def by_name(carrier: Carrier) -> dict[str, Any]:
    """The fields of a struct."""
    return {field.name: field for field in fields(STRUCTS[carrier])}


def test_fields_are_found_by_their_kind():
    found = names_of(JOB, "bytes")
    assert {"body", "result"} <= set(found)
    assert found == tuple(field.name for field in fields_of(JOB) if field.kind == "bytes")
    assert len(found) < len(names_of(JOB))
