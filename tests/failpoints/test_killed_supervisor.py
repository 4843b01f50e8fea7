"""A fleet survives its supervisor, wherever that is killed."""

import asyncio

import pytest

from tests.failpoints.killed_supervisor import kill_at, points_of

AT_A_TIME = 4


@pytest.mark.timeout(400)  # each of its points starts processes
@pytest.mark.parametrize("adopting", [False, True], ids=["starting", "adopting"])
async def test_the_next_supervisor_finds_every_process_and_starts_none_twice(adopting, tmp_path):
    room = asyncio.Semaphore(AT_A_TIME)

    async def kill(number, point):
        async with room:
            return await kill_at(point, tmp_path / str(number), adopting=adopting)

    points = await points_of(tmp_path / "rehearsal", adopting=adopting)
    outcomes = await asyncio.gather(*(kill(*each) for each in enumerate(points)))
    assert {outcome.point: outcome.wrong for outcome in outcomes if outcome.wrong} == {}
    assert all(outcome.died for outcome in outcomes)
    assert len(outcomes) >= (5 if adopting else 10)
