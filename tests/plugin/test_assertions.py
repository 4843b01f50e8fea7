"""Assertions on what was enqueued, and what they say when they fail."""

import asyncio
from dataclasses import dataclass

import pytest

from mulligan import InvalidError, Mulligan
from mulligan.testing import (
    aassert_enqueued,
    aassert_not_enqueued,
    assert_enqueued,
    assert_not_enqueued,
)


@dataclass
class Order:
    number: int


@pytest.fixture
def app():
    made = Mulligan("memory://")

    @made.task(queue="mail")
    def send(to: str, subject: str = "", *, urgent: bool = False) -> None: ...

    @made.task
    def bill(order: Order, *lines: int) -> None:
        send.using(region="EU").enqueue(f"order-{order.number}", subject="paid")

    return made


@pytest.fixture(autouse=True)
def t(app):
    with app.testing() as testing:
        yield testing


@pytest.fixture
def send(app):
    return app.tasks["send"]


@pytest.fixture
def bill(app):
    return app.tasks["bill"]


def failed(call, *given, **options) -> str:
    with pytest.raises(AssertionError) as raised:
        call(*given, **options)
    return str(raised.value)


def test_arguments_are_compared_however_they_were_given(send):
    send.enqueue("ada", subject="Hi")
    assert len(assert_enqueued(send)) == 1
    assert_enqueued(send, args=["ada", "Hi"])
    assert_enqueued(send, args=["ada"], kwargs={"subject": "Hi"})
    assert_enqueued(send, args=(), kwargs={"to": "ada", "subject": "Hi"})
    assert_enqueued(send, kwargs={"to": "ada"})
    assert_enqueued(send, kwargs={"subject": "Hi"}, queue="mail", region="*", count=1)
    assert_not_enqueued(send, args=["ada"])  # the whole call was another
    assert_not_enqueued(send, kwargs={"to": "bob"})
    assert_not_enqueued(send, kwargs={"urgent": True})
    assert_not_enqueued(send, queue="other")
    assert_not_enqueued(send, region="EU")


def test_types_that_json_does_not_know_are_compared_as_they_are_stored(bill):
    bill.enqueue(Order(3), 1, 2)
    assert_enqueued(bill, args=[Order(3), 1, 2])
    assert_enqueued(bill, kwargs={"order": Order(3)})
    assert_not_enqueued(bill, args=[Order(3), 1])
    assert_not_enqueued(bill, args=[Order(4), 1, 2])


def test_what_is_returned_are_the_jobs_oldest_first(send):
    first, second = send.enqueue("a"), send.using(delay=60).enqueue("b")
    assert [job.id for job in assert_enqueued(send, count=2)] == [first.id, second.id]


def test_jobs_that_have_ended_were_enqueued_too(t, send):
    send.enqueue("ada")
    t.drain()
    (job,) = assert_enqueued(send)
    assert job.status == "done"


def test_within_lets_virtual_time_pass(t, send, bill):
    bill.using(delay=600).enqueue(Order(3))
    assert_not_enqueued(send)
    assert_enqueued(send, args=["order-3", "paid"], region="EU", within=3600)
    assert 600 <= t.now < 700
    said = failed(assert_enqueued, send, args=["order-4"], within=60)
    assert "should have been enqueued within 60 s; 0 were" in said


async def test_coroutines_have_their_own(send, bill):
    await bill.using(delay=600).aenqueue(Order(3))
    await aassert_not_enqueued(send)
    await aassert_enqueued(send, kwargs={"to": "order-3"}, within=3600)
    with pytest.raises(AssertionError):
        await aassert_not_enqueued(send)


async def test_within_waits_for_what_the_same_loop_enqueues_in_real_time(tmp_path):
    app = Mulligan(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def send(to: str) -> None: ...

    looked = asyncio.Event()

    async def later():
        await looked.wait()
        await send.aenqueue("ada")

    enqueuing = asyncio.ensure_future(later())
    waiting = asyncio.ensure_future(aassert_enqueued(send, args=["ada"], within=60))
    looked.set()
    assert len(await waiting) == 1
    await enqueuing
    app.close()


# -- messages ------------------------------------------------------------------------------------


def test_a_message_shows_what_was_enqueued_instead(send, bill):
    job = send.enqueue("bob", urgent=True)
    bill.enqueue(Order(3))
    bill.enqueue(Order(4))
    assert failed(assert_enqueued, send, args=["ada"]).splitlines() == [
        "a job of task send with args=['ada'] should have been enqueued; 0 were",
        "jobs of task send:",
        f"  send(to='bob', urgent=True)  pending in queue mail, id {job.id}",
        "jobs of other tasks: bill (2)",
    ]


def test_a_message_says_that_there_was_nothing(send):
    assert failed(assert_enqueued, send).splitlines() == [
        "a job of task send should have been enqueued; 0 were",
        "nothing was enqueued at all",
    ]


def test_a_wrong_number_shows_those_that_were_too_many(send):
    jobs = [send.using(region="US").enqueue(name) for name in "ab"]
    said = failed(assert_enqueued, send, count=1).splitlines()
    assert said[0] == "1 job of task send should have been enqueued; 2 were"
    assert said[2] == f"  send(to='a')  pending in queue mail for US, id {jobs[0].id}"
    said = failed(assert_enqueued, send, count=3).splitlines()
    assert said[0] == "3 jobs of task send should have been enqueued; 2 were"
    said = failed(assert_not_enqueued, send, kwargs={"to": "a"}).splitlines()
    assert (
        said[0] == "no job of task send with kwargs={'to': 'a'} should have been enqueued; 1 were"
    )
    assert len(said) == 3


def test_a_message_stays_short(send):
    for number in range(25):
        send.enqueue("x" * 500, str(number))
    said = failed(assert_enqueued, send, args=["ada"])
    assert said.count("\n") < 25
    assert "… and 5 more" in said
    assert max(map(len, said.splitlines())) < 300


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": "mail"}, "queues is not one of args, kwargs, queue, region"),
        ({"args": "ada"}, "args 'ada' must be a list or tuple; for one argument give ('ada',)"),
        ({"args": [1, 2, 3, 4]}, "send"),
        ({"kwargs": {"from_": "bob"}}, "from_"),
    ],
)
def test_what_the_task_does_not_take_is_refused_and_not_just_missing(send, options, words):
    with pytest.raises(InvalidError) as refusal:
        assert_not_enqueued(send, **options)
    assert words in str(refusal.value)


def test_only_tasks_can_be_looked_for(send):
    with pytest.raises(InvalidError, match="must be a task of an app"):
        assert_enqueued(len)  # type: ignore[arg-type]
    assert_not_enqueued(send.using(delay=5))
