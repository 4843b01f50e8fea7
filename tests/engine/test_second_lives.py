"""An id that is used again: what follows from its second job is not taken for that of the first."""

import pytest

from mulligan import Delays, InvalidError, JobFailedError, Mulligan, Retry, Settings
from tests.engine.test_on_every_store import LEASE, working

ONCE = Retry(0)


@pytest.fixture
def app(store_url):
    made = Mulligan(store_url, settings=Settings(lease=LEASE, beat=0.2, concurrency=5))
    yield made
    made.close()


async def test_a_sink_runs_for_a_second_life_while_that_of_the_first_is_stored(app):
    saved = []

    @app.sink(retry=ONCE)
    async def save(result: str, key: str) -> None:
        saved.append((key, result))
        if len(saved) == 1:
            raise ConnectionError("away")

    @app.task(sink=save)
    async def answer(question: str) -> str:
        return question.upper()

    async with working(app):
        job = await answer.using(id="q1").aenqueue("why")
        await job.aresult(timeout=60)
        first = await job.asink()
        with pytest.raises(JobFailedError, match="away"):
            await first.aresult(timeout=60)
        assert await app.apurge(["q1"]) == [True]
        again = await answer.using(id="q1").aenqueue("how")
        assert (again.created, await again.aresult(timeout=60)) == (True, "HOW")
        second = await again.asink()
        await second.aresult(timeout=60)
        assert (await first.ainfo()).status == "failed"
    assert saved == [("q1.0", "WHY"), ("q1.0", "HOW")]


async def test_a_second_dead_letter_of_an_id_is_told_while_the_news_of_the_first_are_stored(app):
    told = []

    @app.task
    async def mourn(letter: dict[str, object]) -> None:
        told.append(letter["message"])

    @app.task(retry=ONCE, on_dead=mourn)
    async def fails(reason: str) -> None:
        raise ValueError(reason)

    async with working(app):
        for reason in ("once", "twice"):
            job = await fails.using(id="doomed").aenqueue(reason)
            with pytest.raises(JobFailedError, match=reason):
                await job.aresult(timeout=60)
            await app.apurge(["doomed"])
        last = app.task(name="last")(lambda: None)
        await (await last.aenqueue()).aresult(timeout=60)
    assert told == ["once", "twice"]


async def test_a_chain_goes_to_its_end_while_stages_of_an_earlier_one_of_its_id_are_stored(app):
    runs = []

    @app.task
    async def collect(text: str) -> str:
        return text

    @app.task(retry=Retry(1, Delays((0,))))
    async def print_out(text: str) -> str:
        runs.append(text)
        if text == "old":
            raise OSError("no paper")
        return f"printed {text}"

    chain = (collect | print_out).using(id="page")
    async with working(app):
        old = await chain.aenqueue("old")
        with pytest.raises(JobFailedError, match="no paper"):
            await old.aresult(timeout=60)
        assert await app.apurge(["page"]) == [True]
        new = await chain.aenqueue("new")
        assert await new.aresult(timeout=60) == "printed new"
        assert [len(stage.jobs) for stage in await new.astages()] == [1, 1]
    assert runs == ["old", "old", "new"]


async def test_a_gather_is_refused_while_members_of_an_earlier_one_of_its_id_are_stored(app):
    @app.task(retry=ONCE)
    async def double(number: int) -> int:
        if number == 0:
            raise ValueError("nothing to double")
        return 2 * number

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    async with working(app):
        old = await app.agather([double.call(n) for n in (1, 0)], total, id="sum")
        with pytest.raises(JobFailedError):
            await app.job("sum.1.1").aresult(timeout=60)
        await old.acancel()
        assert await app.apurge(["sum.2", "sum.1.0"]) == [True, True]
        calls = [double.call(n) for n in (3, 4)]
        with pytest.raises(InvalidError, match=r"job sum\.1\.1 of an earlier gather is still st"):
            await app.agather(calls, total, id="sum")
        assert await app.apurge(["sum.1.1"]) == [True]
        again = await app.agather(calls, total, id="sum")
        assert (again.created, await again.aresult(timeout=60)) == (True, 14)
