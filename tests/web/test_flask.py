"""mulligan in an application of Flask's, asked by Flask's own client."""

import pytest
from flask import Flask, redirect, request

from mulligan import InvalidError, Mulligan
from mulligan.contrib.flask import Principal, dashboard


@pytest.fixture
def app():
    made = Mulligan("memory://")

    @made.task
    def greet(name: str) -> str:
        return name

    return made


def by_cookie(asked):
    assert asked.path == request.path  # within the context of the request
    name = asked.cookies.get("user")
    return Principal(name, ["operate" if name == "alice" else "read"]) if name else None


def a_flask(app, **options):
    web = Flask("tests")

    @web.post("/greet")
    def greet():
        return {"job": app.tasks["greet"].enqueue(request.args["name"]).id}

    web.register_blueprint(dashboard(app, **options), url_prefix="/ops/mulligan")
    return web


def test_a_view_enqueues_and_the_dashboard_shows_it(app):
    client = a_flask(app, authenticate=by_cookie).test_client()
    client.set_cookie("user", "alice")
    job = client.post("/greet?name=Ada").json["job"]
    shown = client.get(f"/ops/mulligan/api/jobs/{job}").json
    assert shown["body"]["args"] == ["Ada"]
    changed = client.post("/ops/mulligan/api/jobs/cancel", json={"ids": [job]})
    assert changed.json["changed"] == 1
    page = client.get("/ops/mulligan/")
    assert b'src="dashboard/main.js"' in page.data
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert client.get("/ops/mulligan/dashboard/main.js").status_code == 200
    assert client.get("/ops/mulligan", follow_redirects=True).data == page.data


def test_nobody_gets_in_who_is_not_signed_in(app):
    client = a_flask(app, authenticate=by_cookie).test_client()
    for path in ("/ops/mulligan/", "/ops/mulligan/api/status"):
        assert client.get(path).status_code == 401
    client.set_cookie("user", "rita")
    assert client.get("/ops/mulligan/api/status").status_code == 200
    refused = client.post("/ops/mulligan/api/queues/default/pause", json={})
    assert refused.status_code == 403
    assert "rita is allowed to read" in refused.json["detail"]


def test_a_page_may_lead_to_a_login_and_programs_are_told_why_not(app):
    client = a_flask(app, authenticate=lambda _: redirect("/login")).test_client()
    assert client.get("/ops/mulligan/").headers["Location"] == "/login"
    assert client.get("/ops/mulligan/api/status").status_code == 401


def test_below_a_proxy_the_whole_path_is_named(app):
    client = a_flask(app, authenticate=lambda _: Principal("alice")).test_client()
    answer = client.get("/ops/mulligan/api/jobs/none", base_url="http://a/site")
    assert answer.json["instance"] == "/site/ops/mulligan/api/jobs/none"


def test_without_a_login_or_tokens_only_this_machine_is_served(app, tmp_path):
    client = a_flask(app).test_client()
    assert client.get("/ops/mulligan/api/status").status_code == 200
    far = {"REMOTE_ADDR": "192.0.2.7"}
    refused = client.get("/ops/mulligan/api/status", environ_overrides=far)
    assert refused.status_code == 403
    path = tmp_path / "tokens"
    path.write_text(f"read {'r' * 32}\n")
    path.chmod(0o600)
    client = a_flask(app, token_file=path).test_client()
    token = {"Authorization": f"Bearer {'r' * 32}"}
    answer = client.get("/ops/mulligan/api/status", environ_overrides=far, headers=token)
    assert answer.status_code == 200


def test_authenticate_must_be_plain(app):
    async def who(_request):
        return None

    with pytest.raises(InvalidError, match="make it a plain one for Flask"):
        dashboard(app, authenticate=who)
