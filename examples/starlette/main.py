"""A web application of Starlette's that enqueues, shows progress, and has the dashboard in it.

uvicorn main:web            # and in another shell: mulligan worker jobs:app
"""

import os
import secrets
from pathlib import Path
from typing import Any

from jobs import app, report
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from mulligan import Job
from mulligan.contrib.starlette import Dashboard, Principal, job_events, lifespan, state_of

ROLES = {"alice": ["operate"], "rita": ["read"]}
# Sessions end with the process, unless there is one that stays.
SECRET = os.environ.get("SECRET_KEY") or secrets.token_hex()
PAGE = (Path(__file__).parents[1] / "reports.html").read_text("utf-8")


def who(request: Request) -> Principal | Response:
    """Who may use the dashboard, and how: whatever your application knows of its users."""
    name = request.session.get("user")
    if name not in ROLES:
        return RedirectResponse(request.url_for("login").path)
    return Principal(name, ROLES[name])


async def index(_request: Request) -> Response:
    """The page that makes reports."""
    return HTMLResponse(PAGE)


async def login(request: Request) -> Response:
    """Stands for the login of your application."""
    user = request.query_params.get("user")
    if user not in ROLES:
        return HTMLResponse(
            '<a href="login?user=alice">alice</a> <a href="login?user=rita">rita</a>'
        )
    request.session["user"] = user
    return RedirectResponse("mulligan/")


async def make_report(request: Request) -> Response:
    """Enqueue a report."""
    job = await report.aenqueue(request.path_params["month"])
    return JSONResponse({"job": job.id})


async def events(request: Request) -> Response:
    """Stream what becomes of a job."""
    return await job_events(request, request.path_params["job"], show=with_result, every=0.2)


def with_result(job: Job) -> dict[str, Any]:
    """What is told of a job: its result too, since whoever asks may see it here."""
    return {**state_of(job), "result": job.value()}


web = Starlette(
    routes=[
        Route("/", index),
        Route("/login", login, name="login"),
        Route("/reports/{month}", make_report, methods=["POST"]),
        Route("/jobs/{job}/events", events),
        Mount("/mulligan", Dashboard(app, authenticate=who)),
    ],
    middleware=[Middleware(SessionMiddleware, secret_key=SECRET)],
    lifespan=lifespan(app),
)
