"""A web application of Flask's that enqueues, shows progress, and has the dashboard in it.

flask --app main run        # and in another shell: mulligan worker jobs:app
"""

import os
import secrets
from pathlib import Path
from typing import Any

from flask import Flask, Request, redirect, request, session, url_for
from jobs import app, report

from mulligan import UnknownJobError
from mulligan.contrib.flask import Principal, dashboard

ROLES = {"alice": ["operate"], "rita": ["read"]}
PAGE = Path(__file__).with_name("page.html").read_text("utf-8")

web = Flask(__name__)
# Sessions end with the process, unless there is a secret that stays.
web.secret_key = os.environ.get("SECRET_KEY") or secrets.token_hex()


def who(_request: Request) -> Any:
    """Who may use the dashboard, and how: whatever your application knows of its users."""
    name = session.get("user")
    return Principal(name, ROLES[name]) if name in ROLES else redirect(url_for("login"))


web.register_blueprint(dashboard(app, authenticate=who), url_prefix="/mulligan")


@web.get("/")
def index() -> str:
    """The page that makes reports."""
    return PAGE


@web.get("/login")
def login() -> Any:
    """Stands for the login of your application."""
    user = request.args.get("user")
    if user not in ROLES:
        return '<a href="login?user=alice">alice</a> <a href="login?user=rita">rita</a>'
    session["user"] = user
    return redirect(url_for("mulligan.board"))


@web.post("/reports/<month>")
def make_report(month: str) -> dict[str, str]:
    """Enqueue a report."""
    return {"job": report.enqueue(month).id}


@web.get("/jobs/<job>")
def look(job: str) -> Any:
    """Say how a job is: the page asks every second."""
    try:
        info = app.job(job).info()
    except UnknownJobError as error:
        return {"error": str(error)}, 404
    return {"status": info.status, "attempt": info.retry_count + 1, "result": info.value()}
