"""The server as a part of another application: below a path, and behind its login."""

import io
import logging
import re
from urllib.parse import urljoin

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route

from mulligan import Mulligan
from mulligan.core.errors import InvalidError
from mulligan.server.mount import Dashboard
from mulligan.server.principal import Principal
from mulligan.server.wsgi import Bridge
from tests.server.conftest import JSON, good, refused

ALICE = Principal("alice", ["operate"])
RITA = Principal("rita", ["read"])


@pytest.fixture
def app():
    made = Mulligan("memory://")

    @made.task
    def greet(name: str) -> str:
        return name

    return made


@pytest.fixture
async def mounted(app):
    """Makes a Starlette app with a dashboard below a path, and a client of it."""
    clients: list[httpx.AsyncClient] = []
    dashboards: list[Dashboard] = []

    def make(path="/ops/mulligan", root_path="", client=("192.0.2.7", 1), **options):
        dashboard = Dashboard(app, **options)
        around = Starlette(routes=[Mount(path, dashboard)])
        transport = httpx.ASGITransport(around, client=client, root_path=root_path)
        clients.append(
            httpx.AsyncClient(transport=transport, base_url="http://example.org", headers=JSON)
        )
        dashboards.append(dashboard)
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
    for dashboard in dashboards:
        await dashboard.close()


def by_header(request):
    """Says who it is by a header, as a test of a login may."""
    return {"alice": ALICE, "rita": RITA}.get(request.headers.get("x-user", ""))


def user(name, **more):
    return {"headers": JSON | {"x-user": name} | more}


# -- below a path ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mulligan", "/a/b c/täglich"])
async def test_everything_that_a_page_loads_is_below_its_path(mounted, path):
    client = mounted(path, authenticate=lambda _: ALICE)
    seen = set()

    async def load(url):
        if url in seen:
            return
        seen.add(url)
        answer = await client.get(url)
        assert answer.status_code == 200, url
        found = re.findall(r'(?:src|href)="([^"#]+)"|from "([^"]+)"|import "([^"]+)"', answer.text)
        for target in filter(None, (name for names in found for name in names)):
            if not target.startswith("data:") and not target.startswith("`"):
                await load(urljoin(url, target))

    await load(f"{path}/")
    assert f"{path}/dashboard/main.js" in seen
    assert f"{path}/dashboard/pages/job.js" in seen
    assert f"{path}/style.css" in seen
    assert f"{path}/api/docs" in seen
    assert f"{path}/api/openapi.json" in seen
    assert all(each.startswith(path) for each in seen)


async def test_the_path_without_a_slash_leads_to_the_page(app):
    dashboard = Dashboard(app, authenticate=lambda _: ALICE)
    transport = httpx.ASGITransport(dashboard, root_path="/mulligan")
    async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
        answer = await client.get("/mulligan")
        assert (answer.status_code, answer.headers["location"]) == (307, "/mulligan/")
        assert "Content-Security-Policy" in answer.headers


async def test_descriptions_and_problems_name_the_whole_path(mounted):
    client = mounted("/ops", authenticate=lambda _: ALICE)
    document = await good(client.get("/ops/api/openapi.json"))
    assert document["servers"] == [{"url": "/ops"}]
    problem = await refused(client.get("/ops/api/jobs/none"), 404)
    assert problem["type"] == "/ops/api/docs#unknown"
    assert problem["instance"] == "/ops/api/jobs/none"


async def test_a_proxy_that_names_a_root_path_changes_nothing(app, mounted):
    client = mounted("/ops", root_path="/proxied", authenticate=lambda _: ALICE)
    problem = await refused(client.get("/proxied/ops/api/jobs/none"), 404)
    assert problem["instance"] == "/proxied/ops/api/jobs/none"
    # and one that takes it out of the path, as some do
    dashboard = Dashboard(app, authenticate=lambda _: ALICE)
    transport = httpx.ASGITransport(dashboard, root_path="/taken")
    async with httpx.AsyncClient(transport=transport, base_url="http://a") as other:
        problem = await refused(other.get("/api/jobs/none"), 404)
        assert problem["instance"] == "/taken/api/jobs/none"


async def test_a_name_with_a_slash_is_one_segment_below_a_path_too(mounted):
    client = mounted("/a b", authenticate=lambda _: ALICE)
    await good(client.post("/a%20b/api/jobs", json={"task": "greet", "args": ["x"], "id": "a/b"}))
    job = await good(client.get("/a%20b/api/jobs/a%2Fb"))
    assert job["id"] == "a/b"


async def test_the_paths_of_the_application_around_it_give_no_parameters(mounted):
    client = mounted("/of/{job}", authenticate=lambda _: ALICE)
    await good(client.post("/of/x/api/jobs", json={"task": "greet", "args": ["x"], "id": "one"}))
    assert (await good(client.get("/of/x/api/jobs/one")))["id"] == "one"


# -- who -----------------------------------------------------------------------------------------


async def test_roles_of_a_principal_allow_what_they_allow_for_tokens(mounted):
    client = mounted(authenticate=by_header)
    job = {"task": "greet", "args": ["x"]}
    await good(client.post("/ops/mulligan/api/jobs", json=job, **user("alice")))
    await good(client.get("/ops/mulligan/api/status", **user("alice")))
    await good(client.get("/ops/mulligan/api/status", **user("rita")))
    asked = client.post("/ops/mulligan/api/jobs", json=job, **user("rita"))
    await refused(asked, 403, "rita is allowed to read; this needs operate")
    asked = client.post("/ops/mulligan/worker/join", json={}, **user("alice"))
    await refused(asked, 403, "this needs worker")


@pytest.mark.parametrize("path", ["/", "/style.css", "/api/status", "/metrics", "/api/docs"])
async def test_nobody_gets_anything_who_is_not_signed_in(mounted, path):
    client = mounted(authenticate=by_header)
    problem = await refused(client.get(f"/ops/mulligan{path}"), 401, "sign in")
    assert problem["type"] == "/ops/mulligan/api/docs#not-signed-in"


async def test_who_may_only_read_is_shown_nothing_to_press(mounted):
    client = mounted(authenticate=by_header)
    answer = await client.get("/ops/mulligan/api/overview", **user("rita"))
    assert answer.headers["mulligan-read-only"] == "true"
    answer = await client.get("/ops/mulligan/api/overview", **user("alice"))
    assert "mulligan-read-only" not in answer.headers


async def test_the_log_says_who_changed_something(mounted, caplog):
    caplog.set_level(logging.INFO, "mulligan.server")
    client = mounted(authenticate=by_header)
    await good(client.post("/ops/mulligan/api/queues/default/pause", json={}, **user("alice")))
    assert "POST /api/queues/default/pause by alice" in caplog.text


async def test_a_name_cannot_write_lines_of_its_own_into_the_log(mounted, caplog):
    caplog.set_level(logging.INFO, "mulligan.server")
    client = mounted(authenticate=lambda _: Principal("a\nPOST by alice", ["operate"]))
    await good(client.post("/ops/mulligan/api/queues/default/pause", json={}))
    assert "pause by a?POST by alice" in caplog.text


async def test_a_page_may_lead_to_a_login_and_programs_are_told_why_not(mounted):
    client = mounted(authenticate=lambda _: RedirectResponse("/login?next=/ops", 303))
    answer = await client.get("/ops/mulligan/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/ops")
    await refused(client.get("/ops/mulligan/api/status"), 401, "sign in")


async def test_authenticate_sees_the_request_as_routes_around_it_do(app):
    seen = []

    def authenticate(request):
        seen.append(request.url.path)
        return RedirectResponse(
            request.url_for("login").include_query_params(next=request.url.path)
        )

    routes = [
        Mount("/ops", Dashboard(app, authenticate=authenticate)),
        Route("/login", lambda _: None, name="login"),
    ]
    transport = httpx.ASGITransport(Starlette(routes=routes), root_path="/site")
    async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
        answer = await client.get("/site/ops/")
    assert seen == ["/site/ops/"]
    assert answer.headers["location"] == "http://a/site/login?next=%2Fsite%2Fops%2F"


@pytest.mark.parametrize(
    ("raised", "status", "words"),
    [
        (HTTPException(401, "the session has ended"), 401, "the session has ended"),
        (HTTPException(403, "not on the team"), 403, "not on the team"),
    ],
)
async def test_authenticate_may_refuse_by_raising_as_routes_do(mounted, raised, status, words):
    async def authenticate(_request):
        raise raised

    await refused(mounted(authenticate=authenticate).get("/ops/mulligan/"), status, words)


async def test_authenticate_may_lead_away_by_raising(mounted):
    def authenticate(_request):
        raise HTTPException(307, headers={"Location": "/login"})

    answer = await mounted(authenticate=authenticate).get("/ops/mulligan/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/login")


async def test_a_mistake_in_authenticate_lets_nobody_in(mounted, caplog):
    client = mounted(authenticate=lambda _: True)
    await refused(client.get("/ops/mulligan/api/status"), 500, "see the server's log")
    assert "authenticate returned a bool; it must return a Principal" in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"Content-Type": "text/plain"},
    ],
)
async def test_a_cookie_is_no_use_to_pages_of_other_sites(mounted, headers):
    client = mounted(authenticate=by_header)
    asked = client.post("/ops/mulligan/api/jobs", json={"task": "a"}, **user("alice", **headers))
    assert (await asked).status_code in (403, 415)


async def test_a_proxy_may_change_the_host_if_the_browser_says_it_is_the_same_site(mounted):
    client = mounted(authenticate=by_header)
    headers = {"origin": "https://public.example", "sec-fetch-site": "same-origin"}
    job = {"task": "greet", "args": ["x"]}
    await good(client.post("/ops/mulligan/api/jobs", json=job, **user("alice", **headers)))


async def test_without_a_login_or_tokens_only_this_machine_is_served(mounted):
    far = mounted()
    await refused(far.get("/ops/mulligan/api/status"), 403, "give authenticate= or token_file=")
    near = mounted(client=("127.0.0.1", 1))
    await refused(near.get("/ops/mulligan/api/status"), 421, "name it in hosts=")
    named = mounted(client=("127.0.0.1", 1), hosts=["example.org"])
    await good(named.get("/ops/mulligan/api/status"))


async def test_tokens_are_those_of_the_server(mounted, tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"read {'r' * 32}\n")
    path.chmod(0o600)
    client = mounted(token_file=path)
    answer = await client.get("/ops/mulligan/api/status")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    token = {"headers": {"Authorization": f"Bearer {'r' * 32}"}}
    answer = await client.get("/ops/mulligan/api/overview", **token)
    assert answer.headers["mulligan-read-only"] == "true"


async def test_a_read_only_mount_refuses_every_write(mounted):
    client = mounted(authenticate=by_header, read_only=True)
    asked = client.post("/ops/mulligan/api/queues/a/pause", json={}, **user("alice"))
    await refused(asked, 403, "mounted with read_only=True")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda app: Dashboard(app, authenticate=by_header, token_file="x"), "and not both"),
        (
            lambda app: Dashboard(app, authenticate="alice"),  # type: ignore[arg-type]
            "must be a function of a request",
        ),
        (lambda _app: Principal(""), "name '' of a principal must be text"),
        (lambda _app: Principal("alice", ["admin"]), "role 'admin' of principal 'alice' is not"),
        (lambda app: Dashboard(app, token_file="/no/such"), "cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(app, make, words):
    with pytest.raises(InvalidError, match=words):
        make(app)


# -- without an event loop -----------------------------------------------------------------------


def environ(method="GET", path="/", **more):
    given = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "/site",
        "PATH_INFO": f"/mulligan{path}",
        "REMOTE_ADDR": "192.0.2.7",
        "HTTP_HOST": "example.org",
        "SERVER_PORT": "80",
    }
    return given | more


@pytest.fixture
def bridge(app):
    made = Bridge(
        Dashboard(app, authenticate=lambda r: r.scope["mulligan.principal"], streams=False)
    )
    yield made
    made.close()


def test_a_program_without_a_loop_is_answered_too(bridge):
    answer = bridge.answer(environ(), "/site/mulligan", ALICE)
    assert answer.status == 200
    assert b"dashboard/main.js" in answer.body
    assert "content-security-policy" in dict(answer.headers)
    assert bridge.answer(environ(), "/site/mulligan", None).status == 401


def test_it_gets_the_body_and_the_path_as_they_were_sent(bridge):
    body = b'{"task": "greet", "args": ["x"], "id": "a/b"}'
    sent = {
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body + b"the next request"),
    }
    asked = environ("POST", "/api/jobs", **sent)
    assert bridge.answer(asked, "/site/mulligan", ALICE).status == 200
    for raw in ("/site/mulligan/api/jobs/a%2Fb?x", "/mulligan/api/jobs/a%2Fb"):
        asked = environ(path="/api/jobs/a/b", REQUEST_URI=raw)
        assert bridge.answer(asked, "/site/mulligan", RITA).status == 200
    unknown = bridge.answer(environ(path="/api/jobs/a/b"), "/site/mulligan", RITA)
    assert unknown.status == 404  # where the server does not tell, it is two segments


@pytest.mark.parametrize("path", ["/api/events", "/api/jobs/one/events"])
def test_no_stream_holds_a_thread(app, bridge, path):
    app.tasks["greet"].using(id="one").enqueue("Ada")
    answer = bridge.answer(environ(path=path), "/site/mulligan", RITA)
    assert answer.status == 503
    assert b"no events are streamed here" in answer.body
