"""The dashboard as a view of Django's: under any URL, behind Django's login."""

import threading
from io import BytesIO
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from mulligan import Mulligan
from mulligan.contrib.django.registry import discover, our_aliases
from mulligan.server.mount import Dashboard
from mulligan.server.principal import KEY, Principal
from mulligan.server.wsgi import Bridge

bridges: dict[Mulligan, Bridge] = {}
lock = threading.Lock()


@csrf_exempt  # the dashboard refuses what pages of other sites send, and takes only JSON
def dashboard(
    request: HttpRequest, below: str = "", backend: str | None = None
) -> HttpResponseBase:
    """The dashboard and the API of a backend, the first of TASKS unless another is named.

    Staff see it who may view jobs; who may change jobs may do all that it can do.
    """
    aliases = our_aliases()
    alias = backend or next(iter(aliases), "")
    if alias not in aliases:
        raise Http404(f"TASKS has no backend {alias!r} of mulligan's")
    principal = principal_of(request)
    if principal is None and not below.startswith(("api/", "metrics", "worker/")):
        return redirect_to_login(request.get_full_path())
    prefix = request.path.removesuffix(below).rstrip("/")
    answer = bridge_of(discover(alias)).answer(environ_of(request), prefix, principal)
    response = HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))
    # The server has logged what is wrong; no events, as here, is nothing to mail the admins about.
    response._has_been_logged = True  # noqa: SLF001 - as Django marks responses
    return response


def principal_of(request: HttpRequest) -> Principal | None:
    """Who is signed in, and what they may do; refuses those who may not see jobs."""
    user: Any = request.user
    if not user.is_authenticated:
        return None
    if not (user.is_staff and user.has_perm("mulligan.view_job")):
        raise PermissionDenied
    role = "operate" if user.has_perm("mulligan.change_job") else "read"
    return Principal(user.get_username(), [role])


def bridge_of(app: Mulligan) -> Bridge:
    """The dashboard of the app, in a thread of this process."""
    with lock:
        if app not in bridges:
            shown = Dashboard(app, authenticate=lambda request: request.scope[KEY], streams=False)
            bridges[app] = Bridge(shown)
        return bridges[app]


def environ_of(request: HttpRequest) -> dict[str, Any]:
    """The request as WSGI has it, whichever way it came."""
    body = request.body
    raw = getattr(request, "scope", {}).get("raw_path")
    return {
        **request.META,
        "SCRIPT_NAME": as_wsgi(request.path.removesuffix(request.path_info)),
        "PATH_INFO": as_wsgi(request.path_info),
        "HTTP_HOST": request.get_host(),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
        "wsgi.url_scheme": request.scheme,
        **({} if raw is None else {"REQUEST_URI": raw.decode("ascii", "replace")}),
    }


def as_wsgi(text: str) -> str:
    """A text as WSGI has texts: its bytes as latin-1."""
    return text.encode().decode("latin-1")
