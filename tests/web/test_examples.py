"""The examples do what they say, with the real web servers and a real worker."""

import re

import httpx
import pytest

from tests.web.started import COMMANDS, LONGEST_WAIT, example
from tests.web.test_starlette import told

NAMES = list(COMMANDS)
STREAMING = ["fastapi", "starlette"]


def client_of(address: str) -> httpx.Client:
    return httpx.Client(base_url=address, timeout=LONGEST_WAIT, follow_redirects=True)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_enqueues_shows_progress_and_has_the_dashboard(name, tmp_path):
    with (
        example(name, f"sqlite:///{tmp_path}/jobs.db") as (address, web),
        client_of(address) as client,
    ):
        assert "Make the report" in client.get("/").text
        job = client.post("/reports/11").json()["job"]
        if name in STREAMING:
            events = told(client.get(f"/jobs/{job}/events").text)
            assert events[-1][0] == "end"
            assert events[-1][1]["result"] == {"month": "11", "total": "1100 EUR"}
        else:
            assert client.get(f"/jobs/{job}").json()["status"] in ("pending", "processing", "done")
            assert client.get("/jobs/none").status_code == 404
        assert "alice" in client.get("/mulligan/").text  # the login
        assert client.get("/mulligan/api/status").status_code == 401
        assert "dashboard/main.js" in client.get("/login?user=rita").text
        path = f"/mulligan/api/jobs/{job}"
        assert client.get(path, params={"wait": LONGEST_WAIT}).json()["status"] == "done"
        refused = client.post("/mulligan/api/queues/default/pause", json={})
        assert refused.status_code == 403
        client.get("/login?user=alice")
        assert client.post("/mulligan/api/queues/default/pause", json={}).status_code == 200
        assert web.stop() == (0 if name == "gunicorn" else -15)


@pytest.mark.parametrize("name", STREAMING)
def test_a_stopped_web_server_does_not_wait_for_streams(name, tmp_path):
    with (
        example(name, f"sqlite:///{tmp_path}/jobs.db") as (address, web),
        client_of(address) as client,
    ):
        client.get("/login?user=alice")
        client.post("/mulligan/api/queues/default/pause", json={})
        job = client.post("/reports/11").json()["job"]
        with (
            client.stream("GET", f"/jobs/{job}/events") as of_job,
            client.stream("GET", "/mulligan/api/events") as of_all,
        ):
            lines = of_job.iter_lines(), of_all.iter_lines()
            assert next(lines[0]).startswith("retry: ")
            assert next(lines[1]) == "event: snapshot"
            web.stop()
            assert [line for each in lines for line in each if line.startswith("event: end")] == []
        assert not re.search("Traceback|Cancelled|force", web.said), web.said
