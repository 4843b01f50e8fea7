"""Somebody who knows fastapi.md alone: each page's code as it stands there, really started."""

import re
from pathlib import Path

import httpx
import pytest

from tests.web.started import ADDRESS, LONGEST_WAIT, started
from tests.web.test_examples import client_of
from tests.web.test_starlette import told

PAGE = (Path(__file__).parents[2] / "docs/howto/fastapi.md").read_text("utf-8")
BLOCKS = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
SECTIONS = {
    "FastAPI": ("uvicorn main:api", True),
    "Starlette": ("uvicorn main:web", True),
    "Flask": ("flask --app main run", False),
}
TO_A_FREE_PORT = ("--port", "0")


def block_of(section: str) -> str:
    """The code of a section."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    code: str = re.findall(r"```py\n(.*?)```", text, re.DOTALL)[0]
    return code


@pytest.mark.parametrize("section", SECTIONS)
def test_what_the_page_says_works(section, tmp_path):
    command, streams = SECTIONS[section]
    assert f"    {command}\n" in PAGE
    assert "    mulligan worker jobs:app\n" in PAGE
    (tmp_path / "jobs.py").write_text(BLOCKS[0])
    (tmp_path / "main.py").write_text(block_of(section))
    with (
        started((*command.split(), *TO_A_FREE_PORT), tmp_path) as web,
        client_of(web.says(ADDRESS)) as client,
    ):
        job = client.post("/reports/11").json()["job"]
        assert "wait" in client.get(f"/jobs/{job}").json()["why"].lower()
        with started(["mulligan", "worker", "jobs:app"], tmp_path) as worker:
            worker.says(re.compile("ready"))
            follow(client, job, streams=streams)
        assert client.get("/mulligan/").status_code == 401
        client.headers["x-user"] = "alice"
        assert "dashboard/main.js" in client.get("/mulligan/").text
        shown = client.get(f"/mulligan/api/jobs/{job}?wait={LONGEST_WAIT}").json()
        assert shown["result"] == {"month": "11", "total": "1100 EUR"}


def follow(client: httpx.Client, job: str, *, streams: bool) -> None:
    """Wait for the end of the job, by the page's own means."""
    if not streams:
        alice = {"x-user": "alice"}
        client.get(f"/mulligan/api/jobs/{job}?wait={LONGEST_WAIT}", headers=alice)
        return
    events = told(client.get(f"/jobs/{job}/events").text)
    data = {"job": job, "task": "report", "status": "done", "attempt": 1}
    assert events[-1] == ("end", data)
