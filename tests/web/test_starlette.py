"""mulligan in applications of Starlette's and FastAPI's, asked without a network."""

import asyncio
import signal
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import msgspec
import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from mulligan import InvalidError, Mulligan, MulliganError, current_job
from mulligan.app.worker import new_worker, work
from mulligan.contrib.starlette import Dashboard, Principal, get_app, job_events, lifespan
from mulligan.core.retry import Delays, Retry
from mulligan.server.mount import Opened
from tests.engine.real_engine import until

App = Annotated[Mulligan, Depends(get_app)]


def an_app(url: str) -> Mulligan:
    made = Mulligan(url)

    @made.task(retry=Retry(max_retries=1, backoff=Delays((0,))))
    async def greet(name: str) -> str:
        if name == "nobody":
            raise ValueError("there is nobody")
        return f"Hello, {name}!"

    return made


def a_fastapi(app: Mulligan, own=None) -> FastAPI:
    api = FastAPI(lifespan=lifespan(app, own))

    @api.post("/greet")
    async def enqueue(name: str, queue: App) -> dict[str, str]:
        return {"job": (await queue.tasks["greet"].aenqueue(name)).id}

    @api.post("/greet-plain")
    def enqueue_plain(name: str, queue: App) -> dict[str, str]:
        return {"job": queue.tasks["greet"].enqueue(name).id}

    api.add_route("/jobs/{job}/events", events)
    api.mount("/mulligan", Dashboard(app, authenticate=lambda _: Principal("alice", ["operate"])))
    return api


async def enqueue(request) -> JSONResponse:
    task = get_app(request).tasks["greet"]
    return JSONResponse({"job": (await task.aenqueue(request.query_params["name"])).id})


async def events(request):
    return await job_events(request, request.path_params["job"], every=0.01)


def a_starlette(app: Mulligan, own=None) -> Starlette:
    dashboard = Dashboard(app, authenticate=lambda _: Principal("alice", ["operate"]))
    routes = [
        Route("/greet", enqueue, methods=["POST"]),
        Route("/jobs/{job}/events", events),
        Mount("/mulligan", dashboard),
    ]
    return Starlette(routes=routes, lifespan=lifespan(app, own))


KINDS = pytest.mark.parametrize("kind", [a_fastapi, a_starlette])


@asynccontextmanager
async def served(api):
    """A client of the application, while its lifespan lasts, as a web server would have it."""
    async with api.router.lifespan_context(api) as state:

        async def with_state(scope, receive, send):
            await api(scope | {"state": dict(state)}, receive, send)

        transport = httpx.ASGITransport(with_state)
        async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            client.state = state  # type: ignore[attr-defined]
            yield client


@asynccontextmanager
async def working(app: Mulligan):
    """A worker of the app, on this loop."""
    engines: list[Any] = []
    app.access.use_on_loop(None)
    running = asyncio.ensure_future(work(app, new_worker(app), engines.append))
    try:
        yield
    finally:
        engines[0].stop()
        await running


def told(text: str) -> list[tuple[str, Any]]:
    """The events of a stream, with their data."""
    parts = [dict(line.split(": ", 1) for line in part.splitlines()) for part in text.split("\n\n")]
    return [(part["event"], msgspec.json.decode(part["data"])) for part in parts if "event" in part]


@KINDS
def test_a_request_enqueues_and_the_mounted_dashboard_shows_it_on_every_store(kind, store_url):
    app = an_app(store_url)
    with TestClient(kind(app)) as client:
        job = client.post("/greet?name=Ada").json()["job"]
        shown = client.get(f"/mulligan/api/jobs/{job}").json()
        assert (shown["task"], shown["body"]["args"]) == ("greet", ["Ada"])
        assert client.get("/mulligan/").text.count("dashboard/main.js") == 1
        cancelled = client.post("/mulligan/api/jobs/cancel", json={"ids": [job]}).json()
        assert cancelled["changed"] == 1
    app.close()


def test_a_plain_endpoint_of_fastapi_enqueues_from_its_thread(store_url):
    app = an_app(store_url)
    with TestClient(a_fastapi(app)) as client:
        job = client.post("/greet-plain?name=Ada").json()["job"]
        assert client.get(f"/mulligan/api/jobs/{job}").json()["status"] == "pending"


@KINDS
async def test_a_job_is_followed_to_its_end_on_every_store(kind, store_url):
    app = an_app(store_url)
    async with served(kind(app)) as client:
        good = (await client.post("/greet?name=Ada")).json()["job"]
        bad = (await client.post("/greet?name=nobody")).json()["job"]
        following = [
            asyncio.ensure_future(client.get(f"/jobs/{job}/events")) for job in (good, bad)
        ]
        async with working(an_app_like(app)):
            ended = [await each for each in following]
    wanted = (("done", 1), ("failed", 2))
    for answer, job, (status, attempt) in zip(ended, (good, bad), wanted, strict=True):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        seen = told(answer.text)
        name, first = seen[0]  # the worker may have begun
        assert (name, first["job"], first["task"]) == ("status", job, "greet")
        assert 1 <= first["attempt"] <= attempt
        assert [name for name, _ in seen].count("end") == 1
        assert seen[-1][0] == "end"
        assert (seen[-1][1]["status"], seen[-1][1]["attempt"]) == (status, attempt)
        assert "Ada" not in answer.text


async def streaming(opened: Opened) -> bool:
    """Whether somebody follows a job, and somebody the dashboard."""
    running = [await each._opening for each in opened.dashboards if each._opening]
    return bool(opened.job_streams and running and running[0].service.hub._listeners)


def an_app_like(app: Mulligan) -> Mulligan:
    """The app of another process on the same store; in memory it is the same."""
    return app if app.url.startswith("memory") else an_app(app.url)


async def test_what_has_ended_is_told_once_and_not_asked_for_again():
    app = an_app("memory://")
    async with served(a_starlette(app)) as client:
        job = (await client.post("/greet?name=Ada")).json()["job"]
        await app.job(job).acancel()
        first = await client.get(f"/jobs/{job}/events")
        assert [name for name, _ in told(first.text)] == ["end"]
        assert "id: ended" in first.text
        again = await client.get(f"/jobs/{job}/events", headers={"Last-Event-ID": "ended"})
        assert again.status_code == 204


async def test_a_job_that_is_not_stored_has_no_stream():
    async with served(a_starlette(an_app("memory://"))) as client:
        answer = await client.get("/jobs/none/events")
        assert answer.status_code == 404
        assert answer.text == "no job 'none' is stored"  # not where


async def test_show_says_what_is_told():
    app = an_app("memory://")

    async def told_more(request):
        return await job_events(request, request.path_params["job"], show=lambda job: job.body)

    api = Starlette(routes=[Route("/{job}", told_more)], lifespan=lifespan(app))
    async with served(api) as client:
        handle = await app.tasks["greet"].aenqueue("Ada")
        await handle.acancel()
        assert "event: end" in (await client.get(f"/{handle.id}")).text


# -- lifespans -----------------------------------------------------------------------------------


@KINDS
def test_a_lifespan_of_ones_own_finds_the_app_open_and_keeps_its_state(kind, store_url):
    happened = []
    app = an_app(store_url)

    @asynccontextmanager
    async def own(application):
        job = await app.tasks["greet"].aenqueue("early")
        happened.append(("start", type(application).__name__))
        yield {"database": "a pool"}
        happened.append(("end", (await job.ainfo()).status))

    api = kind(app, own)
    api.add_route("/state", lambda request: JSONResponse(request.state.database))
    with TestClient(api) as client:
        assert client.get("/state").json() == "a pool"
    assert happened == [("start", type(api).__name__), ("end", "pending")]


@KINDS
def test_what_fails_in_a_lifespan_of_ones_own_fails_the_start_and_closes_the_app(kind):
    closed: list[bool] = []

    @asynccontextmanager
    async def own(_application):
        if not closed:
            raise RuntimeError("no database")
        yield

    app = an_app("memory://")
    app.close = lambda: closed.append(True)  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="no database"), TestClient(kind(app, own)):
        pass
    assert closed == [True]


def test_a_lifespan_that_is_no_context_manager_is_refused():
    with pytest.raises(InvalidError, match="must be a function of the application"):
        lifespan(an_app("memory://"), own="startup")  # type: ignore[arg-type]

    async def forgotten(_application):
        yield

    api = a_starlette(an_app("memory://"), forgotten)
    with (
        pytest.raises(InvalidError, match="lifespan forgotten returned async_generator"),
        TestClient(api),
    ):
        pass


def test_without_the_lifespan_the_error_says_what_to_do():
    app = an_app("memory://")
    client = TestClient(a_fastapi(app))  # not as a context manager
    with pytest.raises(MulliganError, match=r"give it lifespan=lifespan\(app\)"):
        client.post("/greet?name=Ada")


async def test_streams_end_when_the_process_is_told_to_stop():
    before = signal.getsignal(signal.SIGTERM)
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    app = an_app("memory://")
    try:
        async with served(a_starlette(app)) as client:
            job = (await client.post("/greet?name=Ada")).json()["job"]
            async with asyncio.TaskGroup() as streams:
                of_job = streams.create_task(client.get(f"/jobs/{job}/events"))
                of_all = streams.create_task(client.get("/mulligan/api/events"))
                opened = client.state["mulligan"]
                await until(lambda: streaming(opened))
                signal.raise_signal(signal.SIGTERM)
            assert "pending" in of_job.result().text
            assert "event: snapshot" in of_all.result().text
        assert heard == [signal.SIGTERM]  # the web server's own handler was called too
    finally:
        signal.signal(signal.SIGTERM, before)


def test_progress_is_told_as_the_job_tells_it():
    app = an_app("memory://")

    @app.task
    async def count() -> None:
        for done in (1, 2):
            current_job().progress(done, of=2, note=f"{done} of 2")
            await asyncio.sleep(60)

    async def followed(request):
        return await job_events(request, request.path_params["job"], every=10)

    api = Starlette(routes=[Route("/{job}", followed)], lifespan=lifespan(app))
    with app.testing(), TestClient(api) as client:
        job = count.enqueue()
        events = told(client.get(f"/{job.id}").text)
    progress = [data for name, data in events if name == "progress"]
    assert progress == [{"done": n, "of": 2, "note": f"{n} of 2"} for n in (1, 2)]
    assert events[-1][0] == "end"


def test_in_virtual_time_a_client_enqueues_into_the_test():
    app = an_app("memory://")
    with app.testing() as t, TestClient(a_fastapi(app)) as client:
        job = client.post("/greet?name=Ada").json()["job"]
        t.drain()
        assert app.job(job).result() == "Hello, Ada!"
        assert told(client.get(f"/jobs/{job}/events").text)[-1][1]["status"] == "done"
