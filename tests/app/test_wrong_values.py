"""Values of the wrong kind, as they come from the environment or a typo: each refusal says why."""

import functools
import pickle
import re
from datetime import timedelta
from math import inf

import pytest

from mulligan import (
    Adaptive,
    Budget,
    Capped,
    Delays,
    Exponential,
    InvalidError,
    Mulligan,
    ResultTimeoutError,
    Sessions,
    Settings,
    Weighted,
)


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def double(app):
    @app.task
    def double(number: int) -> int:
        return 2 * number

    return double


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (Exponential, {"factor": "2"}, "factor '2' must be a number, not str"),
        (Adaptive, {"per": "10"}, "per '10' must be a number, not str"),
        (Sessions, {"attempts": "3"}, "attempts '3' must be a whole number, not str"),
        (Sessions, {"within": 5}, "within 5 must be a tuple of durations, as in Sessions("),
        (Delays, {"seconds": 5}, "delays 5 must be a tuple of durations, as in Delays((1, 5"),
        (Delays, {"seconds": "15"}, "delays '15' must be a tuple of durations"),
        (Budget, {"limit": "100"}, "budget limit '100' must be a whole number, not str"),
        (Budget, {"limit": True}, "budget limit True must be a whole number, not bool"),
        (Budget, {"ratio": "0.2"}, "budget ratio '0.2' must be a number, not str"),
        (Weighted, {"retry": "0.2"}, "retry share '0.2' must be a number, not str"),
        (Capped, {"limit": 1.5}, "cap 1.5 must be a whole number, not float"),
        (Settings, {"concurrency": "50"}, "concurrency '50' must be a whole number, not str"),
        (Settings, {"threads": "4"}, "threads '4' must be a whole number, not str"),
        (Settings, {"pool_size": 1.5}, "pool_size 1.5 must be a whole number, not float"),
        (Settings, {"pool_nice": "5"}, "pool_nice '5' must be a whole number, not str"),
        (Mulligan, {"url": 5}, "store 5 must be a URL, such as sqlite:///mulligan.db"),
        (Mulligan, {"url": ""}, "store '' must be a URL, such as sqlite:///mulligan.db"),
        (Mulligan, {"settings": {"lease": 30}}, "must be Settings, such as Settings(lease=30)"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_where_it_is_given(kind, given, said):
    with pytest.raises(InvalidError, match=re.escape(said)):
        kind(**given)


def test_a_queue_takes_a_policy_and_a_budget(app):
    with pytest.raises(InvalidError, match=r"budget 100 must be a Budget, such as Budget\(limit="):
        app.queue("mail", budget=100)
    with pytest.raises(
        InvalidError, match=r"policy 0.2 must be a fetch policy, such as 'balanced'"
    ):
        app.queue("mail", policy=0.2)


def test_a_list_of_calls_holds_calls_alone(app, double):
    said = r"calls has <task double .*>, which is no call; give task.call\(\.\.\.\), which runs"
    with pytest.raises(InvalidError, match=said):
        app.enqueue_many([double.call(1), double])
    with pytest.raises(InvalidError, match=said):
        app.gather([double], double)
    with pytest.raises(InvalidError, match="calls has 4, which is no call"):
        app.enqueue_many(double(each) for each in (2, 3))
    for enqueue in (app.enqueue_many, lambda calls: app.gather(calls, double)):
        with pytest.raises(InvalidError, match=r"calls .* must be a list, such as \[task.call\("):
            enqueue(double.call(1))


def test_what_a_generator_of_calls_raises_is_passed_on(app, double):
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        app.enqueue_many(double.call(app.missing) for _ in range(2))


def test_a_task_has_one_result(app):
    def numbers():
        yield 1

    async def letters():
        yield "a"

    for function in (numbers, letters):
        with pytest.raises(InvalidError, match=r"yields, and a job has one result; return a list"):
            app.task(function)


def test_a_task_has_a_signature(app):
    with pytest.raises(InvalidError, match=r"what it takes cannot be read: .*; call it in"):
        app.task(max)


def test_a_wait_takes_seconds(double):
    job = double.enqueue(1)
    with pytest.raises(InvalidError, match="timeout '5' must be a number of seconds"):
        job.result(timeout="5")
    for over in (-1, timedelta(0)):
        with pytest.raises(ResultTimeoutError):
            job.result(timeout=over)
    job.cancel()
    with pytest.raises(Exception, match="was cancelled"):
        job.result(timeout=inf)


def test_the_reason_of_a_cancellation_is_text(double):
    with pytest.raises(InvalidError, match="reason 5 must be text, not int"):
        double.enqueue(1).cancel(5)


@pytest.mark.parametrize(
    "enqueue",
    [
        lambda app, call, total: app.enqueue_many([call]),
        lambda app, call, total: app.gather([call], total),
        lambda app, call, total: app.gather_call([call], total),
        lambda app, call, total: app.gather([app.gather_call([call], total)], total),
        lambda app, call, total: app.schedules.put("daily", call, every=60),
    ],
)
def test_a_call_of_another_app_is_refused_whole(app, enqueue):
    ran: list[int] = []

    @app.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    other = Mulligan("memory://")

    @other.task
    def double(number: int) -> int:
        ran.append(number)
        return 2 * number

    words = "a call of task double belongs to another app, with the store memory://;"
    with app.testing() as t, other.testing() as u:
        with pytest.raises(InvalidError, match=re.escape(words)):
            enqueue(app, double.call(1), total)
        t.drain()
        assert t.jobs() == u.jobs() == []
        assert not ran


def test_a_task_of_another_app_gathers_nothing(app, double):
    other = Mulligan("memory://")

    @other.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    words = "a call of task total belongs to another app"
    with app.testing(), pytest.raises(InvalidError, match=words):
        app.gather([double.call(1)], total)


@pytest.mark.parametrize("key", ["doc-{number}", "doc-{}", "doc-{0}", "{number:>5}", "{order.id}"])
def test_braces_in_the_unique_key_of_a_task_are_refused(app, key):
    with pytest.raises(InvalidError, match="nothing fills in braces"):
        app.task(unique_key=key)


def test_a_placeholder_in_the_unique_key_of_a_call_is_refused(app, double):
    words = "give a function of the arguments, such as unique_key=lambda number: "
    for made in (double, double | double):
        with pytest.raises(InvalidError, match=words):
            made.using(unique_key="doc-{number}")
    with app.testing():
        job = double.using(unique_key='doc-{"filter":{}}').enqueue(1)
        assert job.info().unique_key == 'doc-{"filter":{}}'


@pytest.mark.parametrize("value", [5, "", "x" * 200])
def test_a_function_must_return_a_unique_key(app, value):
    @app.task(unique_key=lambda number: value)
    def index(number: int) -> None:
        pass

    with app.testing(), pytest.raises(InvalidError, match="unique_key"):
        index.enqueue(1)


class Doubler:
    """A callable object, and what else a class has."""

    async def __call__(self, number: int) -> int:
        return 2 * number

    def method(self, number: int) -> int:
        return 2 * number


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (functools.partial(max, 1), "has no name of its own, by which workers would find it"),
        (Doubler(), "has no name of its own, by which workers would find it"),
        (Doubler, "task 'Doubler' is a class, and a job's result is JSON"),
        (Doubler.method, "task 'method' takes self, as a method does, and a job has no object"),
    ],
)
def test_what_is_no_function_is_no_task(app, function, words):
    with pytest.raises(InvalidError, match=re.escape(words)):
        app.task(function)


@pytest.mark.parametrize(
    "function",
    [functools.partial(pow, 2), Doubler(), Doubler().method],
    ids=["partial", "call", "method"],
)
def test_a_callable_with_a_name_is_a_task(app, function):
    task = app.task(name="named")(function)
    with app.testing():
        assert task.enqueue(4).result() in (8, 16)


def test_a_call_is_no_stage_of_a_chain(double):
    words = "double.call(...) is one call, and a chain is made of tasks"
    with pytest.raises(InvalidError, match=re.escape(words)):
        double.call(1) | double
    with pytest.raises(InvalidError, match="not of <call of double>"):
        double | double.call(1)


def test_an_app_enqueues_nothing_itself(app, double):
    for name in ("enqueue", "aenqueue"):
        with pytest.raises(AttributeError, match=re.escape("enqueue(...) of the task itself")):
            getattr(app, name)(double, 1)


async def test_what_plain_code_returns_is_not_awaited(app, double):
    async with app.testing():
        job = double.enqueue(1)
        with pytest.raises(InvalidError, match=r"write await task\.aenqueue\(\.\.\.\)"):
            await job
        with pytest.raises(InvalidError, match=r"enqueues nothing; await double\.aenqueue"):
            await double.call(1)
        assert await job.aresult() == 2


def test_what_holds_a_connection_is_not_pickled(app, double):
    with app.testing():
        for thing, remedy in (
            (app, "import the app's module there"),
            (double, "import the task from its module there"),
            (double.using(queue="q"), "import the task from its module there"),
            (double | double, "import the task from its module there"),
            (double.call(1), "enqueue it here"),
            (double.enqueue(1), "look the job up there: app.job(id)"),
            ((double | double).enqueue(1), "pass its id"),
        ):
            with pytest.raises(InvalidError, match=re.escape(remedy)):
                pickle.dumps(thing)
