"""Arrays as PostgreSQL reads them."""

import psycopg
import pytest

from mulligan.stores.postgres.arrays import packed_bytes, packed_texts, texts
from tests.stores.postgres.kit import server_of


@pytest.mark.parametrize(
    "values", [[], ["a"], ['"', "\\", ",", "{}", "NULL", " ", ""], [None, "a"], [None], ['a","b']]
)
def test_arrays_arrive_as_they_were(url, values):
    with psycopg.connect(server_of(url)) as connection:
        row = connection.execute("SELECT %s::text[]", (texts(values),)).fetchone()
    assert row == (values,)


@pytest.mark.parametrize(
    "values", [["a"], ["", ""], ["ab", "cd"], ["a", "bc"], ["é", "ü"], ["x" * 127], ["x" * 128] * 2]
)
def test_packed_arrays_arrive_as_they_were(url, values):
    encoded = [value.encode() for value in values]
    for encoding in ("utf8", "latin1"):
        with psycopg.connect(server_of(url), client_encoding=encoding) as connection:
            row = connection.execute(
                "SELECT %s::text[], %s::bytea[]", (packed_texts(values), packed_bytes(encoded))
            ).fetchone()
        assert row == (values, encoded)
