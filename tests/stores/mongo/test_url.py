"""What a store URL may say."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from mulligan.core.errors import InvalidError
from mulligan.stores import make_store
from mulligan.stores.mongo.url import DEFAULTS, parse_url
from tests.contract.builders import jobs
from tests.store_kit import handle


@pytest.mark.parametrize("options", ["move_dead=perhaps", "collection=a$b", "default_task=a%0Ab"])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidError):
        make_store(f"mongodb://127.0.0.1/db?{options}")


def test_an_answer_may_take_ten_seconds_unless_the_url_says_another_time():
    said = dict(parse_qsl(urlsplit(parse_url("mongodb://127.0.0.1/db").for_driver).query))
    assert said == DEFAULTS
    own = "sockettimeoutms=500&w=1"
    assert dict(
        parse_qsl(urlsplit(parse_url(f"mongodb://127.0.0.1/db?{own}").for_driver).query)
    ) == {
        **{name: value for name, value in DEFAULTS.items() if name not in ("socketTimeoutMS", "w")},
        **dict(parse_qsl(own)),
    }


async def test_the_collection_has_the_name_that_the_url_gives(store_url, database, clock):
    async with handle(store_url + "&collection=errands", clock) as store:
        await store.enqueue(jobs("a"))
    assert database["errands"].count_documents({}) == 1
    assert database["tasks"].count_documents({}) == 0
