"""What the pages of the admin have in common. They show a store, and no table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from mulligan import Mulligan
from mulligan.contrib.django.registry import discover, our_aliases
from mulligan.core.errors import MulliganError

AWAY = (MulliganError, OSError)
Action = TypeVar("Action")


class StoreAdmin(admin.ModelAdmin):
    """Views of what a store keeps."""

    def app_to_view(self, request: HttpRequest) -> tuple[Mulligan, str]:
        """The app that was asked for and the name of its backend, for those who may look."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return app_of(request)

    def chosen(self, request: HttpRequest, actions: Mapping[str, Action]) -> Action | None:
        """The action that was chosen, by one who may change things; the page says if none was."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        action = actions.get(request.POST.get("action", ""))
        if action is None:
            messages.warning(request, "No action was chosen.")
        return action

    def to_list(self, request: HttpRequest, why: str | None = None) -> HttpResponse:
        """Go to the list of these, which says why."""
        if why is not None:
            messages.warning(request, why)
        url = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
        return HttpResponseRedirect(url + backend_query(request))

    def answer(self, request: HttpRequest, ask: Callable[[], Any]) -> Any:
        """What the store answers; None if it cannot, which the page then says."""
        try:
            return ask()
        except AWAY as error:
            messages.error(request, str(error))
            return None

    def did(self, request: HttpRequest, act: Callable[[], object]) -> bool:
        """Whether the store did it; if not, the page says why."""
        return self.answer(request, lambda: [act()]) is not None

    def tell(self, request: HttpRequest, done: str, changed: Sequence[Any], noun: str) -> None:
        """Say how many were changed, each of which is in Django's log."""
        for each in changed:
            self.log_change(request, each, f"{done.capitalize()}.")
        count = len(changed)
        words = f"{count} {noun} was {done}." if count == 1 else f"{count} {noun}s were {done}."
        messages.add_message(request, messages.SUCCESS if count else messages.WARNING, words)

    def render(
        self, request: HttpRequest, template: str, context: Mapping[str, Any]
    ) -> HttpResponse:
        """The page, with all that those of the admin have."""
        whole = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "can_change": self.has_change_permission(request),
            "backend": backend_query(request),
        }
        return TemplateResponse(request, template, {**whole, **context})


def backend_query(request: HttpRequest) -> str:
    """What links carry along while another backend than the first is looked at."""
    alias = request.GET.get("backend")
    return f"?{urlencode({'backend': alias})}" if alias else ""


def app_of(request: HttpRequest) -> tuple[Mulligan, str]:
    """The app of the backend that was asked for, or of the first."""
    aliases = our_aliases()
    alias = request.GET.get("backend") or next(iter(aliases), "")
    if alias not in aliases:
        raise Http404(f"TASKS has no backend {alias!r} of mulligan's")
    return discover(alias), alias
