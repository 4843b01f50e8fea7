"""Stages with bound arguments, and stages that ignore the result before them."""

import asyncio
from datetime import date
from types import SimpleNamespace
from typing import Any

import msgspec
import pydantic
import pytest

from mulligan import Delays, InvalidError, Mulligan, Retry, Settings, each
from mulligan.app.worker import new_worker, work


class Frame(pydantic.BaseModel):
    colour: str
    width: int = 1


@pytest.fixture
def seen():
    return []


def declared(app: Mulligan, seen: list[Any]) -> Any:
    """Tasks that say how they were called."""

    @app.task
    def classify(text: str) -> str:
        return f"{text}.png"

    @app.task
    def split(text: str) -> list[str]:
        return text.split()

    @app.task
    async def resize(image: str, width: int, frame: Frame | None = None) -> str:
        return f"{image}@{width}{frame.colour if frame else ''}"

    @app.task
    def upload(bucket: str, image: str, on: date | None = None) -> str:
        return f"{bucket}/{image}"

    @app.task
    def join(images: list[str], by: str = ",") -> str:
        return by.join(images)

    @app.task
    def notify(channel: str, times: int = 1) -> str:
        seen.append(channel * times)
        return channel

    @app.sink
    def save(result: str, key: str = "", *, table: str = "t") -> None:
        seen.append((table, result, key))

    @app.task
    def mourn(letter: dict[str, Any], channel: str) -> None:
        seen.append((channel, letter["message"]))

    return SimpleNamespace(**app.tasks)


@pytest.fixture
def app():
    return Mulligan("memory://", settings=Settings(payload_limit=3000))


@pytest.fixture
def tasks(app, seen):
    return declared(app, seen)


def test_a_stage_is_called_with_the_result_before_it_and_what_was_bound(app, tasks):
    chain = tasks.classify | tasks.resize.partial(width=80, frame=Frame(colour="red"))
    with app.testing() as t:
        job = chain.enqueue("cat")
        t.drain()
        assert job.result() == "cat.png@80red"


def test_the_result_is_the_first_parameter_that_is_not_bound(app, tasks):
    chain = tasks.classify | tasks.upload.partial(bucket="b", on=date(2026, 1, 2))
    with app.testing() as t:
        job = chain.enqueue("cat")
        t.drain()
        assert job.result() == "b/cat.png"


def test_a_stage_may_ignore_the_result_before_it(app, tasks, seen):
    chain = tasks.classify | tasks.notify.without_result("ops", times=2) | tasks.classify
    with app.testing() as t:
        job = chain.enqueue("cat")
        t.drain()
        assert job.result() == "ops.png"
    assert seen == ["opsops"]


def test_a_fan_out_gives_bound_arguments_to_every_job(app, tasks):
    chain = tasks.split | each(tasks.resize.partial(width=5)) | tasks.join.partial(by=" ")
    with app.testing() as t:
        job = chain.enqueue("a b")
        t.drain()
        assert job.result() == "a@5 b@5"
        assert [stage.name for stage in job.stages()] == [
            "split",
            "each(resize.partial(width))",
            "join.partial(by)",
        ]


def test_what_gathers_may_have_bound_arguments_or_ignore_the_results(app, tasks, seen):
    calls = [tasks.resize.call("a", 1), tasks.resize.partial(width=2).call("b")]
    with app.testing() as t:
        joined = app.gather(calls, tasks.join.partial(by="+") | tasks.classify)
        told = app.gather(calls, tasks.notify.without_result("all"))
        t.drain()
        assert (joined.result(), told.result()) == ("a@1+b@2.png", "all")
    assert seen == ["all"]


def test_a_fan_in_within_a_chain_may_ignore_the_results(app, tasks):
    chain = (
        tasks.split | each(tasks.classify) | tasks.notify.without_result("done") | tasks.classify
    )
    with app.testing() as t:
        job = chain.enqueue("a b")
        t.drain()
        assert job.result() == "done.png"


def test_the_first_stage_may_have_bound_arguments_too(app, tasks):
    first = tasks.resize.partial(width=3) | tasks.classify
    alone = tasks.notify.without_result("x") | tasks.classify
    with app.testing() as t:
        jobs = [first.enqueue("cat"), alone.enqueue()]
        t.drain()
        assert [job.result() for job in jobs] == ["cat@3.png", "x.png"]


def test_sinks_and_on_dead_may_have_bound_arguments(app, tasks, seen):
    @app.task(sink=tasks.save.partial(table="answers"))
    def answer() -> str:
        return "yes"

    @app.task(retry=Retry(0), on_dead=tasks.mourn.partial(channel="ops"))
    def die() -> None:
        raise ValueError("no")

    @app.task(retry=Retry(0), on_dead=tasks.notify.without_result("dead"))
    def die_too() -> None:
        raise ValueError("no")

    with app.testing() as t:
        answer.using(id="a").enqueue()
        die.enqueue()
        die_too.enqueue()
        t.drain()
    assert sorted(map(str, seen)) == ["('answers', 'yes', 'a.0')", "('ops', 'no')", "dead"]


def test_it_can_be_enqueued_alone_with_options(app, tasks):
    bound = tasks.resize.using(queue="images").partial(width=7).using(priority="urgent")
    with app.testing(queues=("images", "told")) as t:
        job = bound.enqueue("cat")
        ignoring = tasks.notify.without_result("x").using(queue="told").enqueue()
        t.drain()
        assert (job.result(), job.info().queue, job.info().priority) == ("cat@7", "images", 2)
        assert (ignoring.result(), ignoring.info().queue) == ("x", "told")


async def test_it_can_be_enqueued_by_coroutines(app, tasks):
    async with app.testing() as t:
        jobs = [
            await tasks.resize.partial(width=7).aenqueue("cat"),
            await tasks.notify.without_result("x").aenqueue(),
        ]
        await t.adrain()
        assert [await job.aresult() for job in jobs] == ["cat@7", "x"]


def test_a_retry_of_a_stage_is_called_in_the_same_way(app, tasks):
    calls = []

    @app.task(retry=Retry(1, Delays((0,))))
    def flaky(image: str, width: int) -> str:
        calls.append((image, width))
        if len(calls) < 2:
            raise ValueError
        return image

    with app.testing() as t:
        (tasks.classify | flaky.partial(width=9)).enqueue("cat")
        t.drain()
    assert calls == [("cat.png", 9)] * 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda t: t.resize.partial(colour=1), "unexpected keyword argument 'colour'"),
        (lambda t: t.resize.partial(width="wide"), "argument width='wide' is not int"),
        (lambda t: t.resize.partial(80), r"partial binds arguments by name, .* give 80 its name"),
        (lambda t: t.resize.partial(width=1, frame={"width": 1}), "is not Frame .*colour: Field"),
        (lambda t: t.classify | t.resize, r"resize is called with the result before it alone:"),
        (
            lambda t: t.classify | t.resize.partial(frame=None),
            r"resize.partial\(frame\) is called with .*: missing a required argument: 'width'",
        ),
        (lambda t: t.classify | t.notify.partial(channel="a", times=2), "too many positional"),
        (lambda t: t.notify.without_result(), "missing a required argument: 'channel'"),
        (lambda t: t.notify.without_result(5), "argument channel=5 is not str"),
        (lambda t: t.resize.partial(width=1, frame=Frame(colour="x" * 4000)), "bound arguments"),
        (lambda t: t.join.partial(by="\ud800"), "argument by cannot be written as JSON"),
        (
            lambda t: t.classify.app.task(sink=t.notify.without_result("x")),
            "sink .* must be a task of the app",
        ),
        (
            lambda t: t.classify.app.task(sink=t.notify.using(id="mine")),
            "sink notify has id=, which a job that follows from another cannot have; take id= away",
        ),
        (
            lambda t: t.classify.app.task(on_dead=t.mourn.using(unique_key="k").partial()),
            "on_dead mourn.* has unique_key=, which a job that follows from another cannot have",
        ),
        (
            lambda t: t.classify.app.task(on_dead=t.mourn),
            "on_dead: mourn is called with the dead letter alone: missing .*'channel'",
        ),
    ],
)
def test_what_cannot_be_called_is_refused_when_it_is_built(tasks, make, words):
    with pytest.raises(InvalidError, match=words):
        make(tasks)


def test_all_that_follows_counts_towards_the_payload(app, tasks):
    large = tasks.resize.partial(width=1, frame=Frame(colour="x" * 1400))
    chain = tasks.classify | large | large
    with app.testing() as t:
        with pytest.raises(InvalidError, match="more than the 3000 allowed"):
            chain.enqueue("cat")
        with pytest.raises(InvalidError, match=r"gather: the payload .* more than the 3000"):
            app.gather([tasks.classify.call("a")], tasks.join | large | large)
        assert t.jobs() == []


async def test_bound_and_ignoring_stages_run_on_every_store(store_url, seen):
    app = Mulligan(store_url)
    tasks = declared(app, seen)
    over = asyncio.Event()

    @app.task
    def last(image: str, mark: str) -> str:
        loop.call_soon_threadsafe(over.set)
        return image + mark

    loop = asyncio.get_running_loop()
    chain = await (
        tasks.split
        | each(tasks.resize.partial(width=5))
        | tasks.join.partial(by=" ")
        | tasks.upload.partial(bucket="b")
        | tasks.notify.without_result("told")
        | last.partial(mark="!")
    ).aenqueue("a b")

    async def end(engine: Any) -> None:
        await over.wait()
        engine.stop()

    ends: list[asyncio.Task[None]] = []
    await work(app, new_worker(app), lambda engine: ends.append(asyncio.create_task(end(engine))))
    assert await chain.aresult() == "told!"
    stages = await chain.astages()
    bodies = [msgspec.json.decode(stage.jobs[0].body) for stage in stages]
    assert [(body["args"], body["kwargs"]) for body in bodies] == [
        (["a b"], {}),
        (["a"], {"width": 5}),
        ([], {"by": " "}),
        (["b", "a@5 b@5"], {}),
        (["told"], {}),
        (["told"], {"mark": "!"}),
    ]
    app.close()


def test_what_a_gather_takes_is_shown_up_to_a_hundred(app, tasks):
    with app.testing() as t:
        few = app.gather([tasks.classify.call("a")] * 2, tasks.join.partial(by="+"))
        many = app.gather([tasks.classify.call("a")] * 101, tasks.join)
        none = app.gather([tasks.classify.call("a")], tasks.notify.without_result("x"))
        t.drain()
        [shown, left_out, ignored] = [
            stage.input_of(stage.jobs[0])
            for handle in (few, many, none)
            for stage in [handle.stages()[-1]]
        ]
    assert (shown.args, shown.kwargs, shown.left_out) == ([["a.png"] * 2], {"by": "+"}, 0)
    assert (left_out.args, left_out.left_out) == ([], 101)
    assert (ignored.args, ignored.left_out) == (["x"], 0)


@pytest.mark.parametrize("kind", ["sink", "on_dead"])
def test_what_follows_has_the_options_that_using_said(app, kind):
    @app.task
    def follows(value: object, key: str = "") -> None: ...

    named: dict[str, Any] = {kind: follows.using(queue="slow", priority="urgent", keep=60)}

    @app.task(retry=Retry(0), **named)
    def answer() -> int:
        return 7 if kind == "sink" else int("seven")

    with app.testing() as t:
        answer.enqueue()
        t.drain()
        [follower] = [each for each in t.jobs() if each.task == "follows"]
        assert (follower.queue, follower.priority, follower.keep) == ("slow", 2, 60)
