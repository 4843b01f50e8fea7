"""Limits as a caller has them: what is refused, and how jobs of one limit share it."""

import asyncio
from typing import Any

import pytest

from mulligan import InvalidError, Mulligan, Retry, RetryAfter, current_job


@pytest.fixture
def app():
    made: Any = Mulligan("memory://")
    made.limit("one", concurrency=1)
    made.limit("minute", rate=2, per=60)
    made.limit("tokens", rate=1000, per=60)
    made.limit("tenant:*", concurrency=1)
    return made


def note_starts(app, **options):
    """A task that notes when it starts, by the virtual clock, and takes a second."""
    starts: list[tuple[Any, float]] = []

    @app.task(**options)
    async def ask(what: Any = None) -> None:
        starts.append((what, asyncio.get_running_loop().time()))
        await asyncio.sleep(1)

    return ask, starts


def times(starts):
    """Seconds from the first start to each."""
    return [round(at - starts[0][1], 3) for _, at in starts]


def test_jobs_of_a_limit_run_one_at_a_time_and_others_pass_them(app):
    ask, starts = note_starts(app, limits="one")
    other, others = note_starts(app, name="other")
    with app.testing(concurrency=10) as t:
        for number in range(3):
            ask.enqueue(number)
        other.enqueue()
        t.drain()
    assert times(starts) == [0, 1, 2]
    assert others[0][1] == starts[0][1]


def test_so_many_start_in_a_window(app):
    ask, starts = note_starts(app, limits="minute")
    with app.testing(concurrency=10) as t:
        for number in range(5):
            ask.enqueue(number)
        t.drain()
    assert times(starts) == [0, 0, 60, 60, 120]


def test_limits_may_be_a_function_of_the_arguments(app):
    ask, starts = note_starts(app, limits=lambda what: {f"tenant:{what}": 1})
    with app.testing(concurrency=10) as t:
        for tenant in "aabb":
            ask.enqueue(tenant)
        t.drain()
    assert times(starts) == [0, 0, 1, 1]
    assert [what for what, _ in starts] == ["a", "b", "a", "b"]


def test_what_was_spent_is_waited_off(app):
    starts: list[float] = []

    @app.task(limits={"tokens": 100})
    async def ask() -> None:
        starts.append(asyncio.get_running_loop().time())
        current_job().spend("tokens", 900)
        current_job().spend("tokens", 500)

    with app.testing() as t:
        ask.enqueue()
        t.drain()
        ask.enqueue()
        t.drain()
    assert starts[1] - starts[0] == pytest.approx(60, abs=0.1)


def test_one_that_is_told_to_come_back_later_pauses_the_limit_for_all(app):
    starts: list[tuple[int, float]] = []

    @app.task(limits="one", retry=Retry(1))
    async def ask(number: int) -> None:
        starts.append((number, round(asyncio.get_running_loop().time())))
        if len(starts) == 1:
            raise RetryAfter(20, pause="one")

    with app.testing(concurrency=10) as t:
        for number in range(3):
            ask.enqueue(number)
        t.drain()
    begun = starts[0][1]
    assert [at - begun for _, at in starts] == [0, 20, 20, 20]


def test_a_limit_may_obey_whatever_says_retry_after(app):
    app.limit("polite", concurrency=1, pause_on_retry_after=True)
    starts: list[float] = []

    class TooManyRequestsError(Exception):
        retry_after = 30

    @app.task(limits="polite", retry=Retry(1))
    async def ask() -> None:
        starts.append(round(asyncio.get_running_loop().time()))
        if len(starts) == 1:
            raise TooManyRequestsError

    with app.testing(concurrency=10) as t:
        ask.enqueue()
        ask.enqueue()
        t.drain()
    assert [at - starts[0] for at in starts] == [0, 30, 30]


def test_keys_take_turns_however_many_jobs_each_has(app):
    ask, starts = note_starts(app, fairness_key=lambda what: what)
    with app.testing(concurrency=1) as t:
        for customer in "aaaaabb":
            ask.enqueue(customer)
        t.drain()
    assert "".join(what for what, _ in starts) == "ababaaa"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("unheard", r"limit 'unheard' is not declared; say app.limit\('unheard'"),
        ({"minute": 3}, "cost 3 of limit 'minute' could never be had: it allows 2; lower"),
        ({"minute": 0}, "cost 0 of limit 'minute' must be a whole number"),
        ({"minute": 1.5}, "cost 1.5 of limit 'minute' must be a whole number"),
        ("tenant:*", r"limit 'tenant:\*' is a pattern; a job names limits without"),
        ([f"tenant:{n}" for n in range(9)], "9 limits for one job; name at most 8"),
        (7, "limits 7 must be a name, several names, or a dict of costs by name"),
        (b"one", "limit b'one' must be text, not bytes"),
        ([["one"]], r"limit \['one'\] must be text, not list"),
        (lambda: ["one", 7], "limit 7 must be text, not int"),
    ],
)
def test_limits_that_could_not_hold_are_refused(app, limits, words):
    @app.task
    def ask() -> None: ...

    with app.testing(), pytest.raises(InvalidError, match=words):
        ask.using(limits=limits).enqueue()


@pytest.mark.parametrize("option", ["limits", "fairness_key"])
def test_a_function_of_the_arguments_is_a_plain_one_and_named_if_it_fails(app, option):
    async def wrong(_: str) -> str:
        return "one"

    with pytest.raises(InvalidError, match=rf"{option}= names the coroutine function .*wrong; enq"):
        note_starts(app, **{option: wrong})
    ask, _ = note_starts(app, **{option: lambda: "one"})
    with app.testing(), pytest.raises(TypeError, match="takes 0 positional") as raised:
        ask.enqueue("a")
    [note] = raised.value.__notes__
    assert note.startswith(f"raised by the function that {option}= names; enqueue calls it with")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"a": 0}, "weight 0 of fairness key 'a' must be a number from 0.001 to 1000"),
        ({"a": float("nan")}, "weight nan of fairness key 'a' must be a number"),
        ({"a": "2"}, "weight '2' of fairness key 'a' must be a number"),
        ({None: 2}, "fairness key None must be text, not NoneType"),
        ({"a": 2, 7: 2}, "fairness key 7 must be text, not int"),
        ([("a", 2)], "must be a dict of weights by fairness key"),
    ],
)
def test_weights_that_make_no_sense_are_refused(app, weights, words):
    with pytest.raises(InvalidError, match=words):
        app.queue("default", weights=weights)


def test_jobs_without_a_key_may_have_a_weight_too(app):
    assert app.queue("default", weights={"": 0.5}).weights == (("", 0.5),)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "a limit needs concurrency=, rate=, or both"),
        ({"concurrency": 0}, "to stop all of its jobs, pause the limit"),
        ({"concurrency": 1, "burst": 3}, "burst 3 needs a rate; give rate= too"),
        ({"rate": 5, "per": 0}, "per 0 must be between"),
    ],
)
def test_a_limit_that_says_nothing_is_refused(app, options, words):
    with pytest.raises(InvalidError, match=words):
        app.limit("odd", **options)


def test_a_later_stage_names_its_limits_itself(app):
    ask, _ = note_starts(app, limits=lambda what: {f"tenant:{what}": 1})
    with app.testing(), pytest.raises(InvalidError, match="which a later stage does not have"):
        (ask | ask).enqueue("a")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("unheard", "limit 'unheard' is not declared"),
        ({"minute": 3}, "cost 3 of limit 'minute' could never be had"),
    ],
)
def test_the_limits_of_jobs_that_follow_are_checked_when_the_first_is_enqueued(app, limits, words):
    ask, starts = note_starts(app)
    told, _ = note_starts(app, name="told", limits=limits)
    sunk, _ = note_starts(app, name="sunk", on_dead=told)

    @app.sink
    def keep(value: None, key: str) -> None: ...

    kept, _ = note_starts(app, name="kept", sink=keep.using(limits=limits))
    with app.testing() as t:
        for enqueue in (
            (ask | told).enqueue,
            (ask | sunk).enqueue,
            sunk.enqueue,
            kept.enqueue,
            lambda: app.gather([ask.call()], told),
            lambda: app.gather([ask.call()], ask | told),
        ):
            with pytest.raises(InvalidError, match=words):
                enqueue()
        t.drain()
    assert starts == []


def test_a_cost_that_makes_no_sense_is_refused_inside_the_task(app):
    @app.task(limits="one", retry=Retry(0))
    async def ask() -> None:
        current_job().spend("tokens", -5)

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert job.info().status == "failed"
        assert "cost -5 of limit 'tokens'" in job.info().last_failure_reason


@pytest.mark.parametrize("pool", [None, "process"])
def test_what_is_spent_of_a_limit_that_nobody_declared_is_refused_inside_the_task(app, pool):
    @app.task(limits="one", retry=Retry(0), pool=pool)
    def ask() -> None:
        current_job().spend("tenant:acme", 5)
        current_job().spend("token", 5)

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert "limit 'token' is not declared; say app.limit(" in job.info().last_failure_reason


def test_explain_says_which_limit_has_no_room_and_when_it_will(app):
    ask, _ = note_starts(app, limits="minute")
    with app.testing(concurrency=10) as t:
        jobs = [ask.enqueue(number) for number in range(4)]
        t.advance(5)
        assert jobs[2].explain() == (
            "Waiting for limit 'minute' (2 per 60 s), which has room again in 55 s;"
            " it is the first of the 2 that wait for it in lane fresh."
        )
        assert "at most 1 of the 2 that wait" in jobs[3].explain()
