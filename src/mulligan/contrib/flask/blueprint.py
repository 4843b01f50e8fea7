"""The dashboard and the API of an app as a blueprint."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flask import Blueprint, Request, Response, request

from mulligan.app import Mulligan
from mulligan.core.errors import InvalidError
from mulligan.server.mount import Dashboard
from mulligan.server.principal import KEY, Principal
from mulligan.server.wsgi import Bridge

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
FOR_PROGRAMS = ("api/", "worker/", "metrics")


def dashboard(
    app: Mulligan,
    *,
    authenticate: Callable[[Request], Any] | None = None,
    token_file: str | Path | None = None,
    read_only: bool = False,
    hosts: Iterable[str] = (),
    redact: Iterable[str] = (),
    name: str = "mulligan",
) -> Blueprint:
    """A blueprint with the dashboard and the API of the app.

    `authenticate` is called with each request, within its context, and says who sends it: a
    `Principal`, None if nobody is signed in, or whatever a view may return, such as a redirect to a
    login. Without it requests need a token of `token_file`; without both they must come from this
    machine. Events are not streamed, since each stream would hold a thread: the page asks every two
    seconds.
    """
    if authenticate is not None and inspect.iscoroutinefunction(authenticate):
        raise InvalidError("authenticate is a coroutine function; make it a plain one for Flask")
    bridge = Bridge(
        Dashboard(
            app,
            authenticate=None if authenticate is None else lambda asked: asked.scope[KEY],
            token_file=token_file,
            read_only=read_only,
            hosts=hosts,
            redact=redact,
            streams=False,
        )
    )
    blueprint = Blueprint(name, __name__)

    @blueprint.route("/", defaults={"below": ""}, methods=METHODS)
    @blueprint.route("/<path:below>", methods=METHODS)
    def board(below: str) -> Any:
        who = None if authenticate is None else authenticate(request)
        if not (who is None or isinstance(who, Principal)):
            if not below.startswith(FOR_PROGRAMS):
                return who
            who = None  # a program cannot sign in at a page
        whole = request.script_root + request.path
        prefix = whole[: len(whole) - len(below)].rstrip("/")
        answer = bridge.answer(request.environ, prefix, who)
        return Response(answer.body, answer.status, answer.headers)

    return blueprint
