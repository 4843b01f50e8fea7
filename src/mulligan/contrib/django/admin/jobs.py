"""Jobs in Django's admin: lists, failures with their tracebacks, replay and cancel."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from mulligan import Mulligan
from mulligan.contrib.django.admin import job_rows
from mulligan.contrib.django.admin.pages import StoreAdmin
from mulligan.contrib.django.models import Job
from mulligan.contrib.django.registry import our_aliases
from mulligan.core.page import Page

PAGE = 50
LIST = "admin/mulligan/job/list.html"
ONE = "admin/mulligan/job/job.html"


@admin.register(Job)
class JobAdmin(StoreAdmin):
    """Views of jobs, which are in no table: they are read from their store."""

    def get_urls(self) -> list[Any]:
        """A list, and a page for each job."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="mulligan_job_changelist"),
            path("<path:object_id>/change/", view(self.change_view), name="mulligan_job_change"),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - as Django calls it
        """Jobs are enqueued by the code of the project."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Jobs end by themselves, or are cancelled."""
        return False

    def changelist_view(
        self,
        request: HttpRequest,
        extra_context: Any = None,  # noqa: ARG002 - as Django calls it
    ) -> HttpResponse:
        """The jobs that the filters leave, newest first; a POST replays or cancels those chosen."""
        app, alias = self.app_to_view(request)
        if request.method == "POST":
            self._act(request, app, request.POST.getlist("job"))
            return HttpResponseRedirect(request.get_full_path())
        wanted = request.GET
        page = self.answer(
            request, partial(read_page, app, job_rows.selection(wanted), wanted.get("after"))
        )
        filters = job_rows.filters(wanted, app, alias, our_aliases())
        context = {
            "jobs": [job_rows.row(job) for job in page.jobs] if page else [],
            "later": job_rows.link(wanted, after=page.after) if page and page.after else None,
            "filters": filters,
            "searched": wanted.get("q", ""),
            "kept": [(k, v) for k, v in wanted.items() if k not in ("q", "after")],
            "title": "Jobs",
        }
        return self.render(request, LIST, context)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002 - as Django calls it
        extra_context: Any = None,  # noqa: ARG002
    ) -> HttpResponse:
        """Everything about one job; a POST replays or cancels it."""
        app, _ = self.app_to_view(request)
        job = unquote(object_id)
        if request.method == "POST":
            self._act(request, app, [job])
            return HttpResponseRedirect(request.get_full_path())
        seen = self.answer(request, partial(read_job, app, job))
        if seen is None:
            why = f"There is no job {job}; done ones are kept for a while."
            return self.to_list(request, why)
        return self.render(request, ONE, {**seen, "title": f"Job {job}"})

    def _act(self, request: HttpRequest, app: Mulligan, jobs: Sequence[str]) -> None:
        """Replay or cancel, and say how many jobs that was; those are in Django's log."""
        name = request.user.get_username()
        actions: dict[str, tuple[str, Callable[[], Any]]] = {
            "replay": ("replayed", lambda: app.areplay(jobs)),
            "cancel": ("cancelled", lambda: cancel(app, jobs, f"cancelled by {name}")),
        }
        if (chosen := self.chosen(request, actions)) is None:
            return
        done, act = chosen
        changed = self.answer(request, lambda: app.run(act))
        if changed is None:
            return
        these = [Job(id=job) for job, is_changed in zip(jobs, changed, strict=True) if is_changed]
        self.tell(request, done, these, "job")


def read_page(app: Mulligan, wanted: Any, after: str | None) -> Page:
    """A page of jobs."""
    return app.run(lambda: app.access.acall(lambda store: store.page(wanted, PAGE, after or None)))


def read_job(app: Mulligan, job: str) -> dict[str, Any] | None:
    """Everything that the page of a job shows."""

    async def read() -> dict[str, Any] | None:
        found = await app.access.acall(lambda store: store.get(job))
        if found is None:
            return None
        attempts = await app.access.acall(lambda store: store.history(job))
        return job_rows.details(app, found, attempts, await app.aexplain(job))

    return app.run(read)


async def cancel(app: Mulligan, jobs: Sequence[str], reason: str) -> list[bool]:
    """Cancel the jobs; False where one had ended."""
    return await app.access.acall(lambda store: store.cancel(jobs, reason))
