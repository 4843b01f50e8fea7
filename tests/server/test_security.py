"""Who is let in, and what every answer says to browsers."""

import asyncio
import inspect

import httpx
import pytest

from mulligan.app.schedules import new_schedule, put_schedule
from mulligan.core.errors import InvalidError
from mulligan.core.limits import Limit
from mulligan.server.application import HEADERS
from mulligan.server.bodies import BODY_LIMIT
from mulligan.server.guard import bare_host, is_loopback
from mulligan.server.routes import ROUTES
from mulligan.server.serve import ServerOptions, read_and_check
from mulligan.server.tokens import read_tokens
from mulligan.stores.contract import Store
from tests.cli.command_line import claim, fail, new_job
from tests.server.apps import app
from tests.server.conftest import good, refused

READ, OPERATE, WORKER = ("r" * 32, "o" * 32, "w" * 32)


def each(rows):
    """A case of a test for each row."""
    return [pytest.param(row, id=f"{row.method} {row.path}") for row in rows]


ROWS = each(ROUTES)
WRITES = each(row for row in ROUTES if row.writes)


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# who\nread {READ}\noperate {OPERATE} # the team\n\nworker {WORKER}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def guarded(serve, token_file):
    """A client without a token of a server that has tokens."""
    return serve(tokens=read_tokens(token_file), client=("192.0.2.7", 1))


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def path_of(row):
    return row.path.replace("{", "").replace("}", "")


# All that may be asked of a store without changing it.
READS = {
    *("facts", "counts", "notes", "get", "arrivals", "history", "page", "stats"),
    *("depth", "ahead", "tail", "schedules", "records", "limits", "keys", "statuses"),
}


def only_reads(store, monkeypatch):
    """Let every other operation of the store fail."""

    async def written(*_arguments, **_more):
        raise AssertionError

    for name, _ in inspect.getmembers(Store, inspect.iscoroutinefunction):
        if name not in READS:
            monkeypatch.setattr(store, name, written)


# -- tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
async def test_every_route_needs_a_token_where_there_are_tokens(guarded, row):
    answer = await guarded.request(row.method, path_of(row))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    wrong = await guarded.request(row.method, path_of(row), headers=bearer("x" * 32))
    assert wrong.status_code == 401


@pytest.mark.parametrize("row", ROWS)
async def test_every_route_refuses_a_token_of_another_role(guarded, row):
    wrong = {"read": WORKER, "operate": READ, "worker": OPERATE}[row.role]
    asked = guarded.request(row.method, path_of(row), headers=bearer(wrong))
    await refused(asked, 403, f"this needs one for {row.role}")


async def test_each_role_may_do_its_part_from_any_machine(guarded):
    await good(guarded.get("/api/status", headers=bearer(READ)))
    await good(guarded.get("/api/status", headers=bearer(OPERATE)))
    await good(guarded.post("/api/jobs", json={"task": "a"}, headers=bearer(OPERATE)))
    await good(guarded.post("/worker/join", json={}, headers=bearer(WORKER)))


async def test_a_scheme_other_than_bearer_is_no_token(guarded):
    headers = {"Authorization": f"Basic {READ}"}
    await refused(guarded.get("/api/status", headers=headers), 401)


async def test_a_role_may_have_several_tokens_and_a_token_several_roles(tmp_path, serve):
    path = tmp_path / "tokens"
    path.write_text(f"read {READ}\nread {WORKER}\nworker {WORKER}\n")
    path.chmod(0o640)
    client = serve(tokens=read_tokens(path))
    for token in (READ, WORKER):
        await good(client.get("/api/status", headers=bearer(token)))
    await good(client.post("/worker/join", json={}, headers=bearer(WORKER)))


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (f"read {READ}", 0o644, "readable by everyone; run: chmod 600"),
        (f"read {READ}", 0o660, "mode 660, writable by others"),
        (f"read {READ}", 0o622, "mode 622, writable by others"),
        (f"admin {READ}", 0o600, "line 1: role 'admin' is not one of read, operate, worker"),
        (f"# x\nread {READ[:-1]}", 0o600, "line 2: the token has 31 characters; use at least 32"),
        (f"read {READ} extra", 0o600, "line 1 has 3 words; write: role token"),
        ("# nothing\n", 0o600, "has no token"),
    ],
)
def test_a_token_file_with_a_mistake_is_refused_without_showing_a_token(
    tmp_path, text, mode, words
):
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(InvalidError) as refusal:
        read_tokens(path)
    assert words in str(refusal.value)
    assert READ[:31] not in str(refusal.value)


def test_a_token_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidError, match="cannot be read: No such file"):
        read_tokens(tmp_path / "none")


def test_every_token_is_compared_in_constant_time(token_file, monkeypatch):
    compared = []

    def compare(known, offered):
        compared.append(known)
        return known == offered

    monkeypatch.setattr("mulligan.server.tokens.hmac.compare_digest", compare)
    tokens = read_tokens(token_file)
    assert tokens.roles_of(READ) == {"read"}
    assert tokens.roles_of("guess") == frozenset()
    assert len(compared) == 6


# -- addresses and hosts ---------------------------------------------------------------------


def test_it_binds_this_machine_alone_by_default():
    assert ServerOptions().host == "127.0.0.1"
    assert read_and_check(ServerOptions()) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])  # noqa: S104
def test_another_address_needs_a_token_file(host, token_file):
    with pytest.raises(InvalidError, match="needs tokens; give --token-file"):
        read_and_check(ServerOptions(host=host))
    assert read_and_check(ServerOptions(host=host, token_file=token_file)) is not None


async def test_without_tokens_another_machine_is_refused(serve):
    for address in ("192.0.2.7", "10.0.0.1", "::ffff:192.0.2.7"):
        client = serve(client=(address, 1))
        await refused(client.get("/api/status"), 403, address, "--token-file")
        await refused(client.get("/"), 403)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_without_tokens_this_machine_is_served(serve, address):
    await good(serve(client=(address, 1)).get("/api/status"))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8420", "[::1]:8420", "LOCALHOST:1"])
async def test_this_machines_own_names_are_served(client, host):
    await good(client.get("/api/status", headers={"Host": host}))


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8420", "127.0.0.1.x", ""])
async def test_a_name_that_points_here_is_refused(client, host):
    """DNS rebinding: a page of another site has its own name resolve to this machine."""
    await refused(client.get("/api/status", headers={"Host": host}), 421, "--allow-host")
    await refused(client.get("/", headers={"Host": host}), 421)


async def test_a_name_may_be_allowed(serve):
    client = serve(hosts=("jobs.internal",))
    await good(client.get("/api/status", headers={"Host": "jobs.internal:8420"}))


def test_hosts_are_compared_without_port_and_brackets():
    assert bare_host("[::1]:8420") == "::1"
    assert bare_host("Example.org:80") == "example.org"
    assert bare_host("::1") == "::1"
    assert is_loopback("localhost")
    assert not is_loopback("example.org")


# -- browsers --------------------------------------------------------------------------------


@pytest.mark.parametrize("row", WRITES)
async def test_a_form_of_another_site_cannot_write(client, row):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        asked = client.post(path_of(row), content=b"{}", headers={"Content-Type": kind})
        await refused(asked, 415, "application/json")


@pytest.mark.parametrize("row", WRITES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_script_of_another_site_cannot_write(client, row, headers):
    await refused(client.post(path_of(row), json={}, headers=headers), 403)


async def test_our_own_page_may_write(client):
    headers = {"Origin": "http://localhost:8420", "Sec-Fetch-Site": "same-origin"}
    await good(client.post("/api/jobs", json={"task": "a"}, headers=headers))


async def test_a_token_that_nobody_asked_for_does_not_get_around_it(client):
    headers = bearer("x" * 32) | {"Origin": "https://evil.example"}
    await refused(client.post("/api/jobs", json={"task": "a"}, headers=headers), 403)


async def test_with_a_token_neither_origin_nor_content_type_matters(guarded):
    """No page of another site can send it: there is no cookie that a browser would add."""
    headers = bearer(OPERATE) | {"Content-Type": "text/plain", "Origin": "https://app.example"}
    await good(guarded.post("/api/jobs", content=b'{"task": "a"}', headers=headers))


def test_whatever_a_reader_may_ask_is_a_get():
    assert {row.role for row in ROUTES if row.method == "GET"} == {"read"}
    assert {row.method for row in ROUTES} == {"GET", "POST"}


@pytest.mark.parametrize("row", each(row for row in ROUTES if not row.writes))
async def test_no_get_changes_anything(client, row, store, monkeypatch):
    await store.enqueue([new_job("job")])
    await fail(store, await claim(store, 1, region="region", worker="worker"))
    schedule = new_schedule("schedule", new_job("tick"), None, 60, None, "one")
    await put_schedule(store, schedule)
    await store.set_limit("limit", Limit(concurrency=1), declared=True)
    only_reads(store, monkeypatch)
    client.service.hub.stop()  # a stream of events ends after the first
    monkeypatch.setattr(client.service.job_hubs, "of", lambda _: client.service.hub)
    answer = await client.get(path_of(row))
    gathers = row.path.startswith("/api/gathers/")  # which refuses a job that gathers no others
    assert answer.status_code == (422 if gathers else 200), answer.text
    await client.service.reporter.report()  # what it counted would be written later


async def test_every_answer_carries_the_security_headers(client, guarded, store, monkeypatch):
    async def broken():
        raise RuntimeError("boom")

    answers = [
        await client.get("/"),
        await client.get("/reference.css"),
        await client.get("/api/status"),
        await client.get("/api/docs"),
        await client.get("/nowhere"),
        await client.delete("/api/status"),
        await client.post("/api/jobs", content=b"{"),
        await guarded.get("/api/status"),
    ]
    monkeypatch.setattr(store, "stats", broken)
    transport = httpx.ASGITransport(
        client._transport.app,
        raise_app_exceptions=False,
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as lenient:
        answers.append(await lenient.get("/api/status"))
    assert [answer.status_code for answer in answers] == [
        200,
        200,
        200,
        200,
        404,
        405,
        400,
        401,
        500,
    ]
    assert "boom" not in answers[-1].text
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "access-control-allow-origin" not in answer.headers
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


async def test_the_pages_use_neither_inline_script_nor_style_nor_other_sites(client):
    for path in ("/", "/api/docs"):
        page = (await client.get(path)).text
        for forbidden in ("<script>", "style=", "<style", "onclick=", "http://", "https://"):
            assert forbidden not in page, path


# -- limits ----------------------------------------------------------------------------------


async def test_a_body_over_the_limit_is_refused_before_it_is_read_whole(client):
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 4 * BODY_LIMIT:
            sent += 65_536
            yield b" " * 65_536

    await refused(client.post("/api/jobs", content=endless()), 413, "send it in parts")
    assert BODY_LIMIT < sent < 2 * BODY_LIMIT


@pytest.mark.parametrize("depth", [202, 5_000, 100_000])
async def test_json_that_is_nested_too_deeply_is_refused(client, depth):
    deep = b"[" * depth + b"]" * depth
    body = b'{"task": "a", "args": ' + deep + b"}"
    await refused(client.post("/api/jobs", content=body), 422, "more than 200 levels deep")
    body = b'{"worker": "w", "jobs": [{"id": "a", "token": 1, "result": ' + deep + b"}]}"
    await refused(client.post("/worker/ack", content=body), 422, "more than 200 levels deep")


async def test_json_that_is_wide_and_not_deep_is_taken(client):
    await good(client.post("/api/jobs", json={"task": "a", "args": [[[]] * 1000]}))


async def test_what_is_not_json_is_told_so(client):
    for body in (b"{", b"\xff", b'{"task": "a"} x', b'"\\ud800"'):
        await refused(client.post("/api/jobs", content=body), 400, "not JSON")


# -- read-only -------------------------------------------------------------------------------


@pytest.mark.parametrize("row", WRITES)
async def test_a_read_only_server_refuses_every_write(serve, row):
    asked = serve(read_only=True).post(path_of(row), json={})
    await refused(asked, 403, "--read-only")


async def test_a_read_only_server_still_shows(serve):
    assert (await good(serve(read_only=True).get("/api/overview")))["read_only"] is True


async def test_a_read_only_server_itself_writes_nothing(serve, store, monkeypatch):
    await claim(store, 1)  # a region, so that there could be something to do
    only_reads(store, monkeypatch)
    async with serve(app=app, read_only=True).service.running():
        assert len(asyncio.all_tasks()) == 1


# -- secrets ---------------------------------------------------------------------------------


SECRETS = {
    "password": "hunter2",
    "API_KEY": "hunter2",
    "headers": {"Authorization": "Bearer hunter2", "accept": "all"},
    "nested": [{"clientSecret": "hunter2"}, {"access_token": {"deep": "hunter2"}}],
    "pin": "hunter2",
    "dsn_of": "hunter2",
    "where": "postgresql://me:hunter2@host/db",
}


async def test_secrets_are_hidden_wherever_a_payload_is_shown(serve, store):
    client = serve(redact=("pin",))
    await good(client.post("/api/jobs", json={"task": "a", "id": "j", "kwargs": SECRETS}))
    for path in ("/api/jobs/j", "/api/jobs"):
        text = (await client.get(path)).text
        assert "hunter2" not in text
        assert "postgresql://me:***@host/db" in text
        assert '"accept":"all"' in text


async def test_workers_get_what_was_enqueued(client, store):
    asked = {"task": "a", "id": "j", "kwargs": SECRETS}
    await good(client.post("/api/jobs", json=asked))
    worker = (await good(client.post("/worker/join", json={})))["worker"]
    claimed = await good(client.post("/worker/claim", json={"worker": worker}))
    assert claimed["jobs"][0]["kwargs"] == SECRETS


async def test_positional_arguments_are_hidden_by_the_names_of_the_tasks_parameters(serve):
    client = serve(app=app)
    asked = {"task": "log_in", "id": "j", "args": ["me", "hunter2"]}
    await good(client.post("/api/jobs", json=asked))
    shown = await good(client.get("/api/jobs/j"))
    assert shown["body"]["args"] == ["me", "***"]


async def test_secrets_in_failures_are_hidden(client, store):
    await store.enqueue([new_job("a")])
    message = 'login failed: {"password": "hunter2", "user": "me"} at token=hunter2&x=1'
    await fail(store, await claim(store, 1), message)
    for path in ("/api/jobs/a", "/api/jobs/a/history", "/api/jobs/a/explain", "/api/dead"):
        text = (await client.get(path)).text
        assert "hunter2" not in text, path
        assert "login failed" in text
        assert "&x=" in text


async def test_the_stores_password_is_never_shown(serve, store, monkeypatch):
    client = serve()
    client.service.app.url = "postgresql://me:hunter2@host/db?sslpassword=hunter2"
    assert "hunter2" not in (await client.get("/api/overview")).text

    async def away():
        raise ConnectionError("cannot reach postgresql://me:hunter2@host/db")

    monkeypatch.setattr(store, "stats", away)
    problem = await refused(client.get("/api/overview"), 503, "try again")
    assert "hunter2" not in problem["detail"]
