"""The home of a limit: what job and followers name shares one, and a limit never moves."""

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.job import NewJob
from mulligan.core.limit_homes import (
    check_home,
    home_of_limit,
    home_of_limits,
    limits_of,
    read_homes,
    write_homes,
)
from mulligan.core.limits import Limit
from mulligan.core.shards import Layout, home_of

LAYOUT = Layout(4, 4)
HOMES = {"openai": 0, "tenant:*": 2, "b": 1}


def job(name: str = "3_a", body: bytes = b"{}", **fields: object) -> NewJob:
    return NewJob(name, "default", "ask", body, **fields)  # type: ignore[arg-type]


def test_a_job_lives_in_the_home_of_its_limits():
    assert home_of(job(limits='{"b":1}'), LAYOUT, HOMES) == 1
    assert home_of(job(limits='{"tenant:acme":1}', unique_key="k"), LAYOUT, HOMES) == 2
    assert home_of(job(limits='{"nobody declared":1}'), LAYOUT, HOMES) == 0
    assert home_of(job(), LAYOUT, HOMES) == 3


def test_a_job_lives_in_the_home_of_the_limits_of_those_that_follow():
    later = b'{"flow":{"then":[{"task":"t","limits":"{\\"b\\":1}"}]},"sink":{"limits":"{}"}}'
    assert limits_of(job(body=later)) == ["b"]
    assert home_of(job(body=later), LAYOUT, HOMES) == 1


def test_an_argument_that_is_called_limits_names_none():
    assert limits_of(job(body=b'{"kwargs":{"limits":"no more"}}')) == []
    assert limits_of(job(body=b'{"kwargs":{"limits":[1,2]}}')) == []
    assert limits_of(job(body=b'{"kwargs":{"limits":"\xff"}}')) == []


def test_limits_of_several_homes_are_refused():
    with pytest.raises(InvalidError, match="'openai' lives in shard 0 and limit 'b' in shard 1"):
        home_of_limits(["openai", "b"], HOMES)
    assert home_of_limits(["tenant:a", "tenant:b"], HOMES) == 2
    assert home_of_limits([], HOMES) is None


def test_a_member_with_limits_of_another_home_than_its_gather_is_refused():
    member = job("m", gather="1_g", limits='{"b":1}')
    assert home_of(member, LAYOUT, HOMES) == 1
    with pytest.raises(InvalidError, match="names limits, which live in shard 2, and its gather"):
        home_of(job("m", gather="1_g", limits='{"tenant:a":1}'), LAYOUT, HOMES)


def test_a_limit_does_not_move():
    check_home("b", 1, HOMES)
    check_home("other", 3, HOMES)
    with pytest.raises(InvalidError, match="'b' lives in shard 1, and is declared with home=3"):
        check_home("b", 3, HOMES)


@pytest.mark.parametrize("name", ["tenant:acme", "tenant:big*", "ten*", "*"])
def test_a_family_and_what_it_covers_live_together(name):
    with pytest.raises(InvalidError, match=r"a family and what it covers live together: say home="):
        check_home(name, 3, {"tenant:*": 2, "tenant:x": 2})
    check_home(name, 2, {"tenant:*": 2, "tenant:x": 2})


def test_homes_are_read_as_they_were_written():
    assert read_homes(write_homes(HOMES)) == HOMES
    assert read_homes(None) == {}
    assert home_of_limit("tenant:acme", HOMES) == 2
    assert home_of_limit("acme", HOMES) is None
    with pytest.raises(InvalidError, match="cannot be read; if a newer release wrote it, upgrade"):
        read_homes(b"[]")


@pytest.mark.parametrize("home", [-1, 1024, "b", True, 1.0])
def test_a_home_that_is_no_number_of_a_shard_is_refused(home):
    with pytest.raises(InvalidError, match="must be the number of a shard, from 0 to 1023"):
        Limit(concurrency=1, home=home)


def test_a_limit_says_where_it_lives():
    assert str(Limit(concurrency=2, home=3)) == "2 at a time, in shard 3"
    assert str(Limit(concurrency=2)) == "2 at a time"
