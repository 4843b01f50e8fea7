"""A web application of FastAPI's that enqueues, shows progress, and has the dashboard in it.

uvicorn main:api            # and in another shell: mulligan worker jobs:app
"""

import os
import secrets
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jobs import app, report
from starlette.middleware.sessions import SessionMiddleware

from mulligan import Job, Mulligan
from mulligan.contrib.starlette import (
    Dashboard,
    Principal,
    get_app,
    job_events,
    lifespan,
    state_of,
)

ROLES = {"alice": ["operate"], "rita": ["read"]}
# Sessions end with the process, unless there is one that stays.
SECRET = os.environ.get("SECRET_KEY") or secrets.token_hex()
PAGE = (Path(__file__).parents[1] / "reports.html").read_text("utf-8")
Queue = Annotated[Mulligan, Depends(get_app)]

api = FastAPI(title="Reports", lifespan=lifespan(app))
api.add_middleware(SessionMiddleware, secret_key=SECRET)


def who(request: Request) -> Principal | Response:
    """Who may use the dashboard, and how: whatever your application knows of its users."""
    name = request.session.get("user")
    if name not in ROLES:
        return RedirectResponse(request.url_for("login").path)
    return Principal(name, ROLES[name])


api.mount("/mulligan", Dashboard(app, authenticate=who))


@api.get("/")
async def index() -> HTMLResponse:
    """The page that makes reports."""
    return HTMLResponse(PAGE)


@api.get("/login")
async def login(request: Request, user: str = "") -> Response:
    """Stands for the login of your application."""
    if user not in ROLES:
        return HTMLResponse(
            '<a href="login?user=alice">alice</a> <a href="login?user=rita">rita</a>'
        )
    request.session["user"] = user
    return RedirectResponse("mulligan/")


@api.post("/reports/{month}")
async def make_report(month: str) -> dict[str, str]:
    """Enqueue a report."""
    job = await report.aenqueue(month)
    return {"job": job.id}


@api.get("/jobs/{job}/events")
async def events(request: Request, job: str) -> Response:
    """Stream what becomes of a job."""
    return await job_events(request, job, show=with_result, every=0.2)


@api.get("/jobs/{job}")
async def explain(job: str, queue: Queue) -> dict[str, str]:
    """Say why a job is where it is."""
    return {"job": job, "why": await queue.aexplain(job)}


def with_result(job: Job) -> dict[str, Any]:
    """What is told of a job: its result too, since whoever asks may see it here."""
    return {**state_of(job), "result": job.value()}
