"""The form of a schedule in the admin: when it runs, and for a new one what."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget

from mulligan.contrib.django.backend import Backend
from mulligan.core.errors import InvalidError
from mulligan.core.schedule import CATCH_UPS, check_timing
from mulligan.core.schedule_view import ScheduleView

MISSED = {"one": "one run for all of them", "none": "none", "all": "all, at most 1,000"}
LINE = AdminTextInputWidget
SMALL = AdminTextareaWidget(attrs={"rows": 2})


class TimingForm(forms.Form):
    """When a schedule runs, by its own words or by those of the store's error."""

    cron = forms.CharField(
        required=False,
        widget=LINE,
        help_text="Minute, hour, day, month, weekday, such as 0 9 * * 1-5.",
    )
    every = forms.FloatField(
        required=False, widget=LINE, help_text="Seconds, instead of a cron expression."
    )
    timezone = forms.CharField(
        required=False, widget=LINE, help_text="Of the cron expression; UTC if empty."
    )
    catch_up = forms.ChoiceField(
        label="Missed ticks that are made up for",
        choices=[(word, MISSED[word]) for word in CATCH_UPS],
        initial="one",
    )

    @property
    def timing(self) -> dict[str, Any]:
        """The words of its timing."""
        given = self.cleaned_data
        return {
            "cron": given["cron"] or None,
            "every": given["every"],
            "timezone": given["timezone"] or None,
        }

    def clean(self) -> Any:
        """Refuse what never ticks; the words are the store's own."""
        given = super().clean() or self.cleaned_data
        if {"cron", "every", "timezone"} <= given.keys():
            try:
                check_timing(given.get("name", "this"), **self.timing)
            except InvalidError as error:
                self.add_error(None, str(error))
        return given


class ScheduleForm(TimingForm):
    """A new schedule: its name, a task of the project and its arguments."""

    name = forms.CharField(max_length=255, widget=LINE)
    task = forms.ChoiceField()
    args = forms.JSONField(
        label="Arguments", required=False, initial=list, widget=SMALL, help_text="A list of JSON."
    )
    kwargs = forms.JSONField(
        label="Named arguments",
        required=False,
        initial=dict,
        widget=SMALL,
        help_text="An object of JSON.",
    )
    field_order = ("name", "task", "args", "kwargs", "cron", "every", "timezone", "catch_up")

    def __init__(self, backend: Backend, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.backend = backend
        choices = [(name, name) for name in sorted(backend.home.tasks)]
        self.fields["task"].choices = choices

    def clean_args(self) -> Any:
        """A list."""
        return shaped(self.cleaned_data["args"], list, "a list, such as [7]")

    def clean_kwargs(self) -> Any:
        """An object."""
        return shaped(self.cleaned_data["kwargs"], dict, 'an object, such as {"customer": 7}')

    def clean(self) -> Any:
        """Refuse arguments that the task does not take."""
        given = super().clean()
        if {"task", "args", "kwargs"} <= given.keys():
            try:
                task = self.backend.home.tasks[given["task"]]
                given["call"] = self.backend.call(task, given["args"], given["kwargs"])
            except (InvalidError, TypeError) as error:
                self.add_error(None, str(error))
        return given


def shaped(value: Any, kind: type, words: str) -> Any:
    """The value, or an empty one of its kind."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise forms.ValidationError(f"{value!r} is not {words}")
    return value


def shown_timing(view: ScheduleView) -> Mapping[str, Any]:
    """What the form of a stored schedule begins with."""
    return {name: getattr(view, name) for name in ("cron", "every", "timezone", "catch_up")}
