"""What the URL may say."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.stores.postgres import PostgresStore
from tests.store_kit import with_query
from tests.stores.postgres.kit import opened


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("listen=maybe", "must be on or off"),
        ("schema=", "1 to 63"),
        ("answer_within=soon", "must be a number of seconds"),
        ("answer_within=0", "must be between"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(query, message):
    with pytest.raises(InvalidError, match=message):
        PostgresStore(f"postgresql://localhost/x?{query}")


async def test_other_options_go_to_the_driver(url):
    async with opened(with_query(url, application_name="mine")) as store:
        [[name]] = await store._database.pool.run("SELECT current_setting('application_name')")
    assert name == "mine"
