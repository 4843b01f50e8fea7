"""Shards: where a job lives, whose turn it is, and what each gets of a cap."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.errors import InvalidError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.core.flow import Flow, member_id, stage_id
from mulligan.core.job import NewJob
from mulligan.core.plan import Cap, ClaimPlan, Group, Rate, Source, Take
from mulligan.core.shard_turns import Turns
from mulligan.core.shards import (
    Card,
    Layout,
    absent,
    candidates,
    check_cards,
    check_scheduled,
    check_settings,
    divided,
    divided_source,
    first_of,
    home_of,
    home_of_id,
    in_shard,
    less,
    read_card,
    share,
    tag_of,
    tagged,
    write_card,
)
from mulligan.core.stats import ShardView
from tests.contract.builders import FRESH

IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)
LAYOUTS = st.tuples(st.integers(1, 40), st.integers(0, 40)).map(
    lambda counts: Layout(counts[0] + counts[1], counts[0])
)


def job(name: str, **fields: object) -> NewJob:
    return NewJob(name, "default", "ask", b"{}", **fields)  # type: ignore[arg-type]


@given(IDS, LAYOUTS)
def test_what_follows_from_a_job_is_looked_for_where_the_job_is(name, layout):
    flow = Flow(name, ("a", "b", "c"), 2)
    for follower in (stage_id(flow), member_id(flow, 7), f"{name}.sink.0", f"{name}~12.2"):
        assert home_of_id(follower, layout) == home_of_id(name, layout)


@given(IDS, LAYOUTS, st.integers(1, 20))
def test_a_list_that_grows_moves_no_name(name, layout, more):
    if tag_of(name) is None:
        grown = Layout(layout.count + more, layout.first)
        assert home_of_id(name, grown) == home_of_id(name, layout)
        keyed = job("any", unique_key=name)
        assert home_of(keyed, grown) == home_of(keyed, layout)


@given(LAYOUTS, st.data())
def test_an_id_that_names_its_shard_is_there(layout, data):
    shard = data.draw(st.integers(0, layout.count - 1))
    assert home_of(job(tagged("0mb5", shard)), layout) == shard


@given(IDS, LAYOUTS)
def test_a_job_is_looked_for_in_every_shard_once(name, layout):
    assert sorted(candidates(name, layout)) == list(range(layout.count))


def test_an_id_that_names_a_shard_which_there_is_not_is_refused():
    with pytest.raises(InvalidError, match="names shard 4, and there are 4, from 0"):
        home_of(job("4_mine"), Layout(4, 4))


def test_an_id_that_begins_like_the_name_of_a_shard_is_looked_for_by_its_name():
    layout = Layout(4, 4)
    assert home_of_id("3_mine", layout) == 3
    assert home_of_id("4_mine", layout) == crc32(b"4_mine") % 4


def test_every_release_looks_for_a_name_in_the_same_shard():
    layout = Layout(9, 7)
    for name, written in (("a", b"a"), ("é", b"\xc3\xa9"), ("\udc80", b"\xed\xb2\x80")):
        assert home_of(job(name), layout) == crc32(written) % 7
        assert home_of(job("any", unique_key=name), layout) == crc32(b"default\0" + written) % 7


def test_a_schedule_is_refused_whose_ticks_would_have_another_home():
    with pytest.raises(InvalidError, match="schedule 'daily': its call has the unique key 'k'"):
        check_scheduled("daily", job("t", unique_key="k"))
    limited = job("t", limits='{"api":1}')
    with pytest.raises(InvalidError, match="schedule 'daily': its call names limits of shard 2"):
        check_scheduled("daily", limited, {"api": 2})
    check_scheduled("daily", limited, {"api": 0})
    check_scheduled("daily", job("t"))


def test_members_are_where_their_gather_is_and_jobs_with_limits_in_their_home():
    layout = Layout(4, 4)
    gather = home_of(job("g", awaits=2), layout)
    assert {home_of(job(f"m{n}", gather="g"), layout) for n in range(20)} == {gather}
    assert home_of(job("3_a", limits='{"api":1}'), layout) == 0
    later = NewJob("3_a", "default", "ask", b'{"flow":{"then":[{"limits":"{\\"api\\":1}"}]}}')
    assert home_of(later, layout) == 0


def test_a_gather_that_is_elsewhere_than_its_limits_is_refused():
    with pytest.raises(InvalidError, match="names limits, which live in shard 0"):
        home_of(job("m", gather="3_g", limits='{"api":1}'), Layout(4, 4))


@given(st.integers(1, 1000), st.integers(1, 64))
def test_the_parts_of_a_limit_are_the_whole(limit, count):
    parts = [share(limit, shard, count) for shard in range(count)]
    assert sum(parts) == limit
    assert max(parts) - min(parts) <= 1


def test_a_plan_is_divided_and_what_cannot_be_is_left_to_each():
    limits = Cap("cap:q", 10), Rate("budget:q", 7, 60.0), Rate("fresh:q", None, 60.0), Cap("p", 1)
    plan = ClaimPlan(
        5, (Group("q", "retry", ((Source(FRESH, 0.0, limits),),)),), (Take(0, 5),), epoch=3
    )
    parts = [divided(plan, shard, 4).sources[0].limits for shard in range(4)]
    assert [part[0].limit for part in parts] == [3, 3, 2, 2]
    assert [part[1].limit for part in parts] == [2, 2, 2, 1]
    assert {part[2].limit for part in parts} == {None}
    assert {part[3].limit for part in parts} == {1}
    assert divided(plan, 0, 1) is plan
    assert divided(plan, 2, 4) is divided(plan, 2, 4)


def test_the_next_shard_is_asked_for_what_is_lacking():
    plan = ClaimPlan(5, (Group("q", "fresh", ()),), (Take(0, 1), Take(0, 5)), epoch=3)
    rest = less(plan, 2, 9)
    assert (rest.demand, rest.epoch, [step.until for step in rest.steps]) == (3, 9, [0, 3])


def test_the_next_shard_is_asked_for_all_if_the_others_gave_nothing():
    plan = ClaimPlan(5, (Group("q", "fresh", ()),), (Take(0, 5),), epoch=3)
    assert less(plan, 0, 3) is plan
    assert less(plan, 0, 9) == replace(plan, epoch=9)


def test_a_source_without_limits_is_the_same_in_each_shard():
    source = Source(FRESH, 0.0, ())
    assert divided_source(source, 1, 4) is source


def test_a_job_names_its_shard_and_an_absent_one_says_why():
    views = [ShardView(0, "redis://a"), ShardView(1, "redis://b", away="refused")]
    assert in_shard(1, views) == "Shard 1 of 2 (redis://b):"
    [said] = absent(views)
    assert said.startswith("shard 1 (redis://b) is away: refused; its jobs wait")


def test_a_store_that_was_in_use_before_it_had_shards_was_one_at_first():
    assert first_of([None, Card("a", 1, 4, 2)], used=True, count=4) == 2
    assert first_of([None, None], used=True, count=4) == 1
    assert first_of([None, None], used=False, count=4) == 4


def test_a_cap_that_leaves_a_shard_nothing_is_refused():
    with pytest.raises(InvalidError, match="a cap of 3 cannot be divided among 4 shards"):
        check_settings("mail", QueueSettings(Capped(3)), 4)
    with pytest.raises(InvalidError, match=r"a budget of 1 cannot be divided among 4 shards"):
        check_settings("mail", QueueSettings(budget=Budget(1, 60.0)), 4)
    check_settings("mail", QueueSettings(Capped(4), Budget(ratio=0.2)), 4)


@given(st.integers(2, 8), st.lists(st.integers(1, 50), min_size=1, max_size=200))
def test_while_all_have_work_no_shard_is_far_behind_another(count, demands):
    turns, starts = Turns(count), [0] * count
    for demand in demands:
        first = turns.order(range(count))[0]
        starts[first] += demand
        turns.settle({first: demand}, ())
        assert max(starts) - min(starts) <= 2 * max(demands)


def test_a_shard_without_work_is_owed_nothing_when_it_has_some():
    turns = Turns(2)
    for _ in range(50):
        turns.settle({0: 10}, [1])
    turns.settle({1: 10}, ())
    assert turns.order(range(2))[0] == 0


def test_a_shard_that_has_given_all_it_had_owes_the_others_nothing():
    turns = Turns(2)
    turns.settle({0: 10}, [0])
    assert turns.owed == [0, 0]


def test_of_equals_the_one_that_was_asked_longest_ago_is_first():
    turns = Turns(3)
    first = []
    for _ in range(6):
        first.append(turns.order(range(3))[0])
        turns.settle({first[-1]: 1}, ())
    assert first == [0, 1, 2, 0, 1, 2]


def cards(*numbers: int | None, count: int = 3, app: str = "a") -> list[Card | None]:
    return [None if each is None else Card(app, each, count, count) for each in numbers]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (cards(1, 0, 2), "is shard 1 of its app, and the list has it as shard 0"),
        (cards(0, 1), "the app has 3 shards, and the list has 2"),
        (cards(0, 0, 2), "each once"),
        ([*cards(0, 1), Card("b", 2, 3, 3)], "belongs to another app"),
    ],
)
def test_a_list_that_is_not_the_one_that_was_is_refused(found, message):
    with pytest.raises(InvalidError, match=message):
        check_cards(found, ["one", "two", "three"])


def test_a_list_that_grew_or_has_a_shard_away_is_not():
    check_cards(cards(0, 1, 2, None), list("abcd"))
    check_cards(cards(0, None, 2), list("abc"))


def test_a_card_is_read_as_written_and_that_of_a_newer_release_refused():
    card = Card("a", 1, 4, 2, 7)
    assert read_card(write_card(card)) == card
    assert read_card(None) is None
    with pytest.raises(InvalidError, match="upgrade"):
        read_card(b'{"shard": "one"}')
