"""The book of lines and limits: changes that die half way, come late, or come together."""

import asyncio

import pytest

from mulligan.core.limits import Limit
from mulligan.core.outcome import Done, LimitUse, Returned
from mulligan.core.page import Selection
from mulligan.stores.mongo.book import GRACE, Book
from mulligan.stores.mongo.document import SECOND
from mulligan.stores.mongo.pages import Pages
from tests.contract.builders import ANN, BOB, again, begin, claim, done, job, jobs, names
from tests.store_kit import handle
from tests.stores.mongo.steps import crash, moment, plain

ONE = Limit(concurrency=1)
K = '{"k":1}'


@pytest.fixture
async def limited(store):
    """A store in which one job of the limit k may run at a time."""
    await store.set_limit("k", ONE, declared=True)
    return store


def dies(monkeypatch, place, name):
    """The process dies when it comes there."""
    monkeypatch.setattr(place, name, crash)
    return pytest.raises(asyncio.CancelledError)


async def view(store, name="k"):
    return {each.name: each for each in await store.limits(100)}[name]


async def test_a_claim_that_dies_after_it_was_made_holds_its_permit_and_is_reclaimed(
    limited, another, clock, monkeypatch
):
    await limited.enqueue(jobs("a", "b", limits=K))
    with dies(monkeypatch, limited._book.ledger, "carry_out"):
        await claim(limited, demand=2)
    assert names(await claim(another, worker=BOB, demand=2)) == []
    assert (await another.get("a")).status == "processing", "another did what it was to do"
    clock.advance(ANN.lease + 1)
    [lost] = await another.reclaim(10, BOB)
    assert lost.id == "a"
    assert names(await claim(another, worker=BOB)) == ["b"]


async def test_a_claim_that_dies_before_it_is_made_has_taken_nothing(limited, another, monkeypatch):
    await limited.enqueue(jobs("a", "b", limits=K))
    with dies(monkeypatch, limited._book.ledger, "commit"):
        await claim(limited, demand=2)
    assert (await view(another)).running == 0
    assert names(await claim(another, worker=BOB, demand=2)) == ["a"]


async def test_a_job_whose_process_died_before_its_line_knew_is_found(
    limited, another, clock, monkeypatch
):
    with dies(monkeypatch, limited._book, "tell"):
        await limited.enqueue(jobs("a", limits=K))
    await another.promote(100)
    assert names(await claim(another)) == [], "whoever enqueued it may be about to tell"
    clock.advance(GRACE / SECOND)
    await another.promote(100)
    assert names(await claim(another)) == ["a"]


async def test_permits_and_debts_of_an_outcome_whose_process_died_count_once(
    limited, another, clock, monkeypatch
):
    await limited.set_limit("tokens", Limit(rate=100, per=3600), declared=True)
    [first] = await begin(limited, job("a", limits='{"k":1,"tokens":10}'))
    await limited.enqueue([job("b", limits=K)])
    outcome = Done(first.lease, use=LimitUse(spent=(("tokens", 7),)))
    with dies(monkeypatch, limited._book, "tell"):
        await limited.commit([outcome])
    assert (await view(another)).running == 1
    clock.advance(GRACE / SECOND)
    for _ in range(3):
        await another.promote(100)
        assert await another.commit([outcome]) == ["already"]
    assert (await view(another)).running == 0
    assert (await view(another, "tokens")).used == 17
    assert names(await claim(another)) == ["b"]


async def test_a_process_that_comes_back_late_changes_nothing(
    limited, another, database, clock, monkeypatch
):
    """It was stopped with all that it had to do before it; meanwhile the job was claimed anew."""
    ledger, stopped = limited._book.ledger, []

    async def stop(redo):
        stopped.append(redo)
        crash()

    await limited.enqueue([job("a", limits=K, fairness_key="x")])
    monkeypatch.setattr(ledger, "carry_out", stop)
    with pytest.raises(asyncio.CancelledError):
        await claim(limited)
    monkeypatch.undo()
    await another.promote(100)
    clock.advance(ANN.lease + 1)
    [lost] = await another.reclaim(10, BOB)
    await another.commit([again(lost)])
    await another.cancel(["a"], "no need")

    def everything():
        return [list(database[name].find()) for name in ("tasks_lines", "tasks_meta")]

    before = everything()
    assert await ledger.carry_out(stopped[0]) == set()
    await ledger.finish(stopped[0])
    assert everything() == before
    assert (await another.get("a")).status == "cancelled"


async def test_what_was_charged_for_a_job_that_was_not_got_is_given_back(limited, another, between):
    await limited.set_limit("k", Limit(concurrency=5, rate=3, per=3600), declared=True)
    await limited.enqueue(jobs("a", "b", limits=K))

    other = another._connection.tasks

    async def taken():
        await other.update_one({"_id": "a"}, {"$set": {"status": "done"}})

    between(before=taken)
    assert names(await claim(limited, demand=2)) == ["b"]
    assert ((await view(limited)).running, (await view(limited)).used) == (1, 1)


BUCKET = Limit(rate=10, per=1, burst=1)


async def test_a_claim_that_others_were_quicker_than_starts_when_it_is_charged(
    store, another, clock, monkeypatch
):
    """It read the clock and stood still; what it would be charged for was forgotten since."""
    await store.set_limit("k", BUCKET, declared=True)
    await store.enqueue(jobs("a", "b", limits=K))
    read = store._book.ledger.read

    async def late():
        monkeypatch.undo()
        [first] = (await claim(another, worker=BOB)).claims
        clock.advance(0.2)
        await another.commit([done(first)])
        return await read()

    monkeypatch.setattr(store._book.ledger, "read", late)
    [second] = (await claim(store)).claims
    assert second.started_at == clock()


async def test_a_claim_whose_clock_is_behind_starts_no_earlier_than_the_last_change(
    store, store_url, clock
):
    await store.set_limit("k", BUCKET, declared=True)
    await store.enqueue(jobs("a", "b", limits=K))
    began = clock()
    [first] = (await claim(store, worker=BOB)).claims
    clock.advance(0.2)
    await store.commit([done(first)])
    async with handle(store_url, lambda: began + 0.05) as behind:
        [second] = (await claim(behind)).claims
    assert second.started_at == clock()


async def test_what_falls_due_while_a_claim_opens_the_book_is_claimed_with_it(
    limited, tasks, clock, monkeypatch
):
    await limited.enqueue(jobs("a", limits=K))
    tasks.insert_one(plain(clock, "b", next_retry_at=moment(clock.now + 0.1)))
    read = limited._book.ledger.read

    async def late():
        monkeypatch.undo()
        clock.advance(0.2)
        return await read()

    monkeypatch.setattr(limited._book.ledger, "read", late)
    assert sorted(names(await claim(limited, demand=2))) == ["a", "b"]


async def test_a_server_whose_clock_was_set_back_goes_by_it(store, store_url, clock):
    await store.set_limit("k", BUCKET, declared=True)
    await begin(store, job("a", limits=K))
    async with handle(store_url, lambda: clock() - 3600) as earlier:
        assert names(await claim(earlier)) == []
        await earlier.enqueue([job("b", limits='{"other":1}')])
        [second] = (await claim(earlier)).claims
    assert second.started_at == clock() - 3600


async def test_permits_of_leases_that_nobody_has_are_freed(limited, another, tasks, clock):
    """Another program finished what we ran, or the claim died before it gave them back."""
    [first] = await begin(limited, job("a", limits=K))
    await limited.enqueue([job("b", limits=K)])
    assert names(await claim(limited)) == []
    tasks.update_one({"_id": first.id}, {"$set": {"status": "done"}})
    clock.advance(GRACE / SECOND)
    await another.promote(100)
    assert names(await claim(another)) == ["b"]


async def test_only_leases_that_may_be_over_are_looked_at_before_permits_are_freed(
    limited, another, tasks, clock, monkeypatch
):
    """Those that began since the first look are nobody's business, however many they are."""
    await limited.set_limit("k", Limit(concurrency=9), declared=True)
    [first] = await begin(limited, job("a", limits=K))
    await limited.enqueue(jobs("b", "c", "d", limits=K))
    tasks.update_one({"_id": first.id}, {"$set": {"status": "done"}})
    asked: list[list[str]] = []
    dead, read = Book.dead, Pages._jobs

    async def and_others_begin(book, holders):
        found = await dead(book, holders)
        assert len((await claim(limited, demand=3)).claims) == 3
        return found

    async def counted(pages, needs):
        asked.append([key for _, key in needs])
        await read(pages, needs)

    monkeypatch.setattr(Book, "dead", and_others_begin)
    monkeypatch.setattr(Pages, "_jobs", counted)
    clock.advance(GRACE / SECOND)
    await another.promote(100)
    assert asked == [["a"]]
    assert (await view(limited)).running == 3


async def test_changes_that_come_together_all_count(limited, another):
    handles = [limited, another] * 4
    new = [[job(f"{n}-{i}", limits=K, fairness_key=f"x{i}") for i in range(3)] for n in range(8)]
    await asyncio.gather(*(h.enqueue(some) for h, some in zip(handles, new, strict=True)))
    assert sum(each.waiting for each in await limited.keys("default", 100)) == 24
    started: list[str] = []
    for _ in range(240):
        claims = await asyncio.gather(
            claim(limited, demand=3), claim(another, demand=3, worker=BOB)
        )
        got = [each for some in claims for each in some.claims]
        assert len(got) <= 1
        started += [each.id for each in got]
        await asyncio.gather(*(another.commit([done(each)]) for each in got))
        if len(started) == 24:
            break
    stored = (await limited.page(Selection(), 100)).jobs
    unended = [(each.id, each.status, each.worker) for each in stored if each.status != "done"]
    assert len(set(started)) == 24, (await limited.limits(9), unended)


async def test_names_and_keys_that_were_used_leave_no_page(store, database, clock):
    await store.set_limit("t*", Limit(concurrency=1, rate=5, per=1), declared=True)
    made = [job(f"j{n}", limits=f'{{"t{n}":1}}', fairness_key=f"x{n}") for n in range(20)]
    await store.enqueue(made)
    claims = (await claim(store, demand=20)).claims
    assert len(claims) == 20
    await store.commit([*(done(each) for each in claims[:10]), *map(returned, claims[10:])])
    await store.cancel([each.id for each in claims[10:]], "no need")
    clock.advance(61.0)
    await store.prune(0.0, 100)
    left = list(database["tasks_lines"].find())
    assert [page["_id"] for page in left] == ["limit\x1ft*"]


def returned(claim_):
    return Returned(claim_.lease)


async def test_jobs_without_limits_pay_nothing(store, monkeypatch):
    """Nothing of the book is read or written for them, but by the read that every claim makes."""
    asked: list[object] = []
    for name in ("read", "make", "change"):
        monkeypatch.setattr(store._book.ledger, name, asked.append)
    await store.enqueue(jobs("a", "b"))
    first, second = (await claim(store, demand=2)).claims
    await store.commit([done(first), again(second)])
    await store.cancel(["b"], "no need")
    assert asked == []
