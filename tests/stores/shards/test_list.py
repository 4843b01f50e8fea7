"""The list of shards: made while all answer, only ever longer, and each store in it once."""

import pytest

from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.core.schedule import Schedule, template
from mulligan.core.ticks import put
from mulligan.stores import make_store, redact
from mulligan.stores.shards import shard_urls
from tests.contract.builders import claim, job, jobs, names
from tests.stores.shards.kit import Switched, spread


async def test_a_list_that_shrank_is_refused(store, shards, clock):
    with pytest.raises(InvalidError, match="the app has 4 shards, and the list has 3"):
        await spread(clock, *shards[:3]).open()


async def test_a_list_that_was_reordered_is_refused(store, shards, clock):
    with pytest.raises(InvalidError, match="is shard 1 of its app, and the list has it as shard 0"):
        await spread(clock, shards[1], shards[0], *shards[2:]).open()


async def test_two_names_of_one_store_are_refused_before_anything_is_written(shards, clock):
    with pytest.raises(InvalidError, match=r"shards 0 .* and 2 .* are the same store"):
        await spread(clock, shards[0], shards[1], shards[0]).open()
    assert [shard.store.state.schedules for shard in shards] == [{}] * 4
    assert [shard.store.state.notes for shard in shards] == [{}] * 4


async def test_a_shard_of_another_app_is_refused(store, shards, clock):
    other = [Switched(clock), Switched(clock)]
    await spread(clock, *other).open()
    with pytest.raises(InvalidError, match="another app"):
        await spread(clock, *shards[:3], other[1]).open()


async def test_a_list_is_not_made_while_one_is_away(shards, clock):
    shards[3].down = True
    with pytest.raises(StoreUnavailableError, match="made, and grows, while all of them answer"):
        await spread(clock, *shards).open()


async def test_an_app_grows_while_it_runs_and_names_keep_their_home(store, shards, clock):
    await store.enqueue([job("mine", unique_key="k"), *jobs("1_old", "order-7")])
    more = [*shards, *(Switched(clock) for _ in range(4))]
    grown = spread(clock, *more)
    await grown.open()
    again = await grown.enqueue([job("7_x", unique_key="k"), job("order-7"), job("6_new")])
    assert [each.created for each in again] == [False, False, True]
    assert more[6].jobs == ["6_new"]
    assert sorted(names(await claim(grown, demand=10))) == ["1_old", "6_new", "mine", "order-7"]


async def test_an_app_with_a_schedule_that_no_shards_could_place_is_not_spread(shards, clock):
    first = shards[0].store
    keyed = Schedule("keyed", *template(job("x", unique_key="k")), every=60.0)
    await first.reschedule(put(None, keyed, clock.now))
    with pytest.raises(InvalidError, match=r"schedule 'keyed'.*leave unique_key away"):
        await spread(clock, *shards).open()
    assert set(first.state.schedules) == {"keyed"}


async def test_a_process_with_the_shorter_list_stops(store, shards, clock):
    await claim(store)
    more = [*shards, Switched(clock)]
    await spread(clock, *more).open()
    with pytest.raises(InvalidError, match="grown to 5 shards, and this process knows 4"):
        await claim(store)


async def test_an_app_does_not_grow_beyond_a_cap(store, shards, clock):
    await store.configure("mail", QueueSettings(Capped(4)))
    with pytest.raises(InvalidError, match="a cap of 4 cannot be divided among 5 shards"):
        await spread(clock, *shards, Switched(clock)).open()
    assert len(store.shards.all) == 4


async def test_an_app_of_one_store_is_spread_and_what_callers_name_stays(shards, clock):
    await shards[0].store.enqueue([job("mine", unique_key="k")])
    spread_out = spread(clock, *shards)
    await spread_out.open()
    again = await spread_out.enqueue([job("2_x", unique_key="k"), job("mine"), job("2_new")])
    assert [each.created for each in again] == [False, False, True]


async def test_a_reader_writes_no_card(shards, clock):
    reader = spread(clock, *shards)
    await reader.open(read_only=True)
    assert (await reader.stats()).lanes == []
    assert [shard.store.state.schedules for shard in shards] == [{}] * 4


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://?shards=0", "must be a whole number from 1 to 1024"),
        ("memory://?shards=many", "must be a whole number"),
        ("postgresql://h/db?shards=4", "give the URL of each, with blanks between them"),
        ("redis://h/0 redis://h/0", "is listed twice, as 0 and 1"),
        ("redis://h/0 postgresql://h/db", "stores of several kinds"),
        ("redis://h/0?shards=2 redis://h/1", "asks for shards itself"),
    ],
)
def test_a_url_that_says_no_list_is_refused(url, message):
    with pytest.raises(InvalidError, match=message):
        shard_urls(url)


@pytest.mark.parametrize(
    ("url", "urls"),
    [
        ("memory://?shards=1", ["memory://"]),
        ("sqlite:///jobs.db?shards=2", ["sqlite:///jobs.db", "sqlite:///jobs-1.db"]),
        (
            "redis://h/0?prefix=a&shards=2",
            ["redis://h/0?prefix=a", "redis://h/0?prefix=a%3Ashard1"],
        ),
        ("postgresql://a/x  postgres://b/x", ["postgresql://a/x", "postgres://b/x"]),
    ],
)
def test_a_url_names_its_shards(url, urls):
    assert shard_urls(url) == urls


def test_a_file_name_with_a_blank_is_no_list():
    assert not hasattr(make_store("sqlite:///my jobs.db"), "shards")


def test_passwords_of_a_list_are_hidden_one_by_one():
    shown = redact("postgresql://me:secret@a/x postgresql://me:other@b/x")
    assert shown == "postgresql://me:***@a/x postgresql://me:***@b/x"
