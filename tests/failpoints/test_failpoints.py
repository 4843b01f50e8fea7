"""Nothing is lost or doubled, wherever a process is killed: each play, at each of its points."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.failpoints.killed_play import Performance
from tests.failpoints.places import Places, places
from tests.failpoints.plays import PLAYS
from tests.store_kit import require

CASES = [
    pytest.param(store, play, id=f"{store}-{play.role}-{play.name}".replace(" ", "-"))
    for store in ("sqlite", "redis", "postgres", "mongo")
    for play in PLAYS
    if store in play.stores
]


@pytest.fixture(scope="module")
def places_on(tmp_path_factory) -> Iterator[Callable[[str], Places]]:
    """Places on a store, kept for all plays: a schema takes longer to make than to use."""
    made: dict[str, Places] = {}
    with ExitStack() as stack:

        def on(store: str) -> Places:
            if store not in made:
                folder = tmp_path_factory.mktemp(store)
                made[store] = stack.enter_context(places(store, folder))
            return made[store]

        yield on


@pytest.mark.timeout(400)  # some plays have dozens of points
@pytest.mark.parametrize(("store", "play"), CASES)
async def test_whatever_is_killed_where_ends_as_if_nothing_had_happened(
    store, play, places_on, tmp_path
):
    require(store)
    outcomes = await Performance(play, places_on(store), tmp_path).run()
    wrong = {outcome.point: outcome.wrong for outcome in outcomes if outcome.wrong}
    assert wrong == {}
    missed = [each.point for each in outcomes if not each.died]
    assert [point for point in missed if not play.may_miss(point)] == []
    assert len(missed) < len(outcomes)


LOSING = [
    play
    for play in PLAYS
    if play.name in ("gather or not", "steps", "one at a time", "lost leases", "two releases")
]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("play", LOSING, ids=lambda play: play.name)
async def test_whichever_answer_of_mongodb_is_lost_the_process_goes_on_and_all_ends_as_it_should(
    play, places_on, tmp_path
):
    require("mongo")
    outcomes = await Performance(play, places_on("mongo"), tmp_path, misses=True).run()
    assert {each.point: each.wrong for each in outcomes if each.wrong} == {}
    assert any(each.died for each in outcomes)
