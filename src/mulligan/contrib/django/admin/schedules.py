"""Schedules in Django's admin: their next ticks, and pause, resume, run, edit, add and remove."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from mulligan import Mulligan
from mulligan.app.schedules import retime_schedule
from mulligan.contrib.django.admin.job_rows import shown_time, written
from mulligan.contrib.django.admin.pages import AWAY, StoreAdmin, app_of
from mulligan.contrib.django.admin.schedule_form import (
    MISSED,
    ScheduleForm,
    TimingForm,
    shown_timing,
)
from mulligan.contrib.django.compat import tasks
from mulligan.contrib.django.models import Schedule
from mulligan.core.errors import InvalidError
from mulligan.core.schedule import check_timing
from mulligan.core.schedule_view import ScheduleView

FOLDER = "admin/mulligan/schedule"


@admin.register(Schedule)
class ScheduleAdmin(StoreAdmin):
    """Views of schedules, stored ones and those that tasks declare."""

    def get_urls(self) -> list[Any]:
        """A list, a form for a new one, and two pages for each."""
        view, name = self.admin_site.admin_view, "mulligan_schedule_"
        one = "<path:object_id>"
        return [
            path("", view(self.changelist_view), name=f"{name}changelist"),
            path("add/", view(self.add_view), name=f"{name}add"),
            path(f"{one}/change/", view(self.change_view), name=f"{name}change"),
            path(f"{one}/delete/", view(self.delete_view), name=f"{name}delete"),
        ]

    def changelist_view(
        self,
        request: HttpRequest,
        extra_context: Any = None,  # noqa: ARG002 - as Django calls it
    ) -> HttpResponse:
        """All schedules by name; a POST pauses, resumes or runs those chosen."""
        app, _ = self.app_to_view(request)
        if request.method == "POST":
            self._act(request, app, request.POST.getlist("schedule"))
            return HttpResponseRedirect(request.get_full_path())
        found = self.answer(request, app.schedules.list) or []
        context = {
            "schedules": [row(each) for each in found],
            "can_add": self.has_add_permission(request),
            "title": "Schedules",
        }
        return self.render(request, f"{FOLDER}/list.html", context)

    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",  # noqa: ARG002 - as Django calls it
        extra_context: Any = None,  # noqa: ARG002
    ) -> HttpResponse:
        """A form for a new schedule, with its ticks before it is stored."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        app, alias = app_of(request)
        form = ScheduleForm(tasks.task_backends[alias], request.POST or None)
        if form.is_valid() and "preview" not in request.POST:
            name = form.cleaned_data["name"]
            if said(form, lambda: stored(app, form)):
                self.log_addition(request, Schedule(name=name), "Added.")
                messages.success(request, f"Schedule {name} was added.")
                return self.to_list(request)
        context = {"form": form, "ticks": ticks_of(app, form), "title": "Add schedule"}
        return self.render(request, f"{FOLDER}/schedule.html", context)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002 - as Django calls it
        extra_context: Any = None,  # noqa: ARG002
    ) -> HttpResponse:
        """One schedule; a POST pauses, resumes or runs it, or gives it another timing."""
        app, _ = self.app_to_view(request)
        name = unquote(object_id)
        if "action" in request.POST:
            self._act(request, app, [name])
            return HttpResponseRedirect(request.get_full_path())
        found = self.answer(request, lambda: app.schedules.get(name))
        if found is None:
            return self.to_list(request, f"There is no schedule {name}.")
        can_edit = self.has_change_permission(request) and not found.declared
        if request.method == "POST" and not can_edit:
            raise PermissionDenied
        form = TimingForm(request.POST or None, initial=shown_timing(found)) if can_edit else None
        saves = form is not None and form.is_valid() and "preview" not in request.POST
        if form is not None and saves and said(form, lambda: retimed(app, name, form)):
            self.tell(request, "changed", [Schedule(name=name)], "schedule")
            return HttpResponseRedirect(request.get_full_path())
        context = {
            "form": form,
            "ticks": ticks_of(app, form) or [shown_time(tick) for tick in found.next_ticks],
            "fields": [(label, value) for label, value in fields_of(found) if value != ""],
            "schedule": found,
            "quoted": quote(name),
            "can_delete": self.has_delete_permission(request) and is_removable(found),
            "title": f"Schedule {name}",
        }
        return self.render(request, f"{FOLDER}/schedule.html", context)

    def delete_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: Any = None,  # noqa: ARG002 - as Django calls it
    ) -> HttpResponse:
        """Ask whether the schedule is to be removed, and remove it."""
        if not self.has_delete_permission(request):
            raise PermissionDenied
        app, _ = app_of(request)
        name = unquote(object_id)
        found = self.answer(request, lambda: app.schedules.get(name))
        if found is None:
            return self.to_list(request, f"There is no schedule {name}.")
        if request.method == "POST":
            if self.did(request, partial(app.schedules.remove, name)):
                self.log_change(request, Schedule(name=name), "Removed.")
                messages.success(request, f"Schedule {name} was removed; jobs that run go on.")
            return self.to_list(request)
        context = {"schedule": found, "quoted": quote(name), "title": f"Remove schedule {name}?"}
        return self.render(request, f"{FOLDER}/remove.html", context)

    def _act(self, request: HttpRequest, app: Mulligan, names: Sequence[str]) -> None:
        """Pause, resume or run the schedules, and say how many that was."""
        kept = app.schedules
        actions: dict[str, tuple[str, Callable[[str], Any]]] = {
            "pause": ("paused", kept.pause),
            "resume": ("resumed", kept.resume),
            "run": ("run", kept.run_now),
        }
        if (chosen := self.chosen(request, actions)) is None:
            return
        done, act = chosen
        changed = [name for name in names if self.did(request, partial(act, name))]
        self.tell(request, done, [Schedule(name=name) for name in changed], "schedule")


def said(form: forms.Form, act: Callable[[], object]) -> bool:
    """Whether it was done; if not, the form says why."""
    try:
        act()
    except AWAY as error:
        form.add_error(None, str(error))
        return False
    return True


def stored(app: Mulligan, form: ScheduleForm) -> None:
    """Store a new schedule; refuses a name that one has."""
    given = form.cleaned_data
    if app.schedules.get(given["name"]) is not None:
        raise InvalidError(
            f"schedule {given['name']!r} is there already; change it, or take another name"
        )
    app.schedules.put(given["name"], given["call"], **form.timing, catch_up=given["catch_up"])


def retimed(app: Mulligan, name: str, form: TimingForm) -> None:
    """Give the schedule the timing of the form; its call stays."""
    change = check_timing(name, **form.timing) | {"catch_up": form.cleaned_data["catch_up"]}
    app.run(lambda: app.access.acall(lambda store: retime_schedule(store, name, change)))


def ticks_of(app: Mulligan, form: TimingForm | None) -> list[str]:
    """The next ticks that the form would give; none while it is not filled in, or wrong."""
    if form is None or not form.is_valid():
        return []
    return [shown_time(tick.timestamp()) for tick in app.schedules.preview(**form.timing)]


def row(view: ScheduleView) -> dict[str, Any]:
    """A schedule in the list."""
    return {
        "name": view.name,
        "path": f"{quote(view.name)}/change/",
        "task": view.task,
        "timing": view.timing,
        "state": view.state,
        "declared": view.declared,
        "next": shown_time(view.next_tick),
        "last": shown_time(view.last_tick),
        "ticks": view.ticks,
        "problem": view.problem,
    }


def fields_of(view: ScheduleView) -> list[tuple[str, Any]]:
    """What the page of a schedule shows of it."""
    declared = "its task; change it there" if view.declared else ""
    return [
        ("State", view.state),
        ("Problem", view.problem or ""),
        ("Declared by", declared),
        ("Runs", view.timing),
        ("Task", view.task),
        ("Queue", view.queue),
        ("Arguments", written(view.args) if view.args else ""),
        ("Named arguments", written(view.kwargs) if view.kwargs else ""),
        ("Options", written(view.options) if view.options else ""),
        ("Missed ticks made up for", MISSED[view.catch_up]),
        ("Last tick", shown_time(view.last_tick)),
        ("Ticks", view.ticks),
        ("Changed", shown_time(view.changed_at)),
    ]


def is_removable(view: ScheduleView) -> bool:
    """Whether it can be removed: what a task declares would be stored again by a worker."""
    return not view.declared or view.state == "undeclared"
