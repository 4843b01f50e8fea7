"""The shapes of the API and the table of fields agree."""

from typing import get_type_hints

from mulligan.core.fields import JOB, fields_of
from mulligan.core.job import Attempt, Job
from mulligan.server.shapes.jobs import AttemptView, JobView

# What a lane is called stands for its scope and priority; bodies, results and limits are decoded.
OTHERWISE = {"lane", "body", "limits", "result"}


def test_the_api_shows_every_field_of_a_job_that_is_to_be_shown():
    shown = {field.name for field in fields_of(JOB) if field.shown}
    assert set(JobView.__struct_fields__) == shown | {"lane"}


def test_the_api_shows_them_by_their_types():
    hints, shown = get_type_hints(Job), get_type_hints(JobView)
    assert {name: shown[name] for name in shown.keys() - OTHERWISE} == {
        name: hints[name] for name in shown.keys() - OTHERWISE
    }


def test_the_api_shows_every_field_of_an_attempt():
    assert set(AttemptView.__struct_fields__) == set(Attempt.__struct_fields__)
