"""What the SQL says of fields is what the table of fields says."""

import re
from importlib.resources import files

import pytest

from mulligan.core.fields import NEW_JOB, OPTIONS, fields_of, names_of
from mulligan.stores.postgres.fields import OF_LINE

SQL = files("mulligan.stores.postgres").joinpath("sql/enqueue.sql").read_text("utf-8")
# Where the row of a job has a field of a new one: a duration is stored as the time that it ends at.
COLUMNS = {
    "delay": "due",
    "expires": "expires_at",
    "debounce_max": "debounce_until",
    "unique_for": "unique_until",
}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def inserts(function: str) -> list[set[str]]:
    """The columns that each insertion of jobs in a function names."""
    source = re.search(rf"CREATE FUNCTION {function}\(.*?\n\$\$;", SQL, re.DOTALL)
    assert source is not None
    return [words(each) for each in re.findall(r"INSERT INTO job \((.*?)\)", source[0], re.DOTALL)]


@pytest.mark.parametrize(
    ("function", "times", "left_out"),
    [
        ("add", 2, ()),
        ("add_alike", 1, OPTIONS),
        ("add_to_line", 1, [name for name in OPTIONS if name not in OF_LINE]),
    ],
)
def test_every_field_of_a_new_job_is_stored_however_it_is_added(function, times, left_out):
    found = inserts(function)
    assert len(found) == times
    kept = [field.name for field in fields_of(NEW_JOB) if field.kept]
    wanted = {COLUMNS.get(name, name) for name in kept if name not in left_out}
    for columns in found:
        assert wanted <= columns


def test_each_of_gives_every_field_of_a_new_job_and_its_default():
    source = SQL[SQL.index("CREATE FUNCTION each_of") : SQL.index("-- add_alike")]
    result, body = source.split("AS $$", 1)
    assert words(result) >= set(names_of(NEW_JOB))
    for field in fields_of(NEW_JOB):
        assert f"jobs.{field.name}" in body
        if field.option and field.default is not None:
            assert f"coalesce(u.{field.name}, {str(field.default).lower()})" in body
