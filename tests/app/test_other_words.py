"""Words of other queues: what a newcomer tries first is told what it is called here."""

import copy
import re

import pytest

import mulligan
from mulligan import Mulligan
from mulligan.app.decorator import TaskOptions
from mulligan.app.options import CHECKS
from mulligan.app.other_words import APP, METHODS, OPTIONS
from mulligan.core.errors import InvalidError


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def hello(app):
    @app.task
    def hello(name: str) -> str:
        return name

    return hello


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("delay", "here it is hello.enqueue(...)"),
        ("apply_async", "here it is hello.using(delay=..., queue=...).enqueue(...)"),
        ("kiq", "here it is await hello.aenqueue(...)"),
    ],
)
def test_a_method_of_other_queues_is_told_by_its_name_here(hello, method, words):
    with pytest.raises(AttributeError, match=re.escape(words)):
        getattr(hello, method)


def test_what_no_queue_has_is_an_attribute_that_is_not_there(hello):
    assert not hasattr(hello, "nonsense")
    with pytest.raises(AttributeError, match=r"task hello has no attribute 'nonsense'$"):
        hello.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("AsyncResult", "here it is app.job(id)"),
        ("conf", "here it is Mulligan(url, settings=Settings(...)), and app.queue(...)"),
        ("nonsense", "a Mulligan app has no attribute 'nonsense'"),
    ],
)
def test_an_attribute_of_other_apps_is_told_by_its_name_here(app, name, words):
    with pytest.raises(AttributeError, match=re.escape(words) + "$"):
        getattr(app, name)


def test_a_task_can_be_copied(hello):
    assert copy.copy(hello).name == hello.name


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("max_retries", "max_memory; here it is retry=Retry(max_retries=...)"),
        ("acept", "; did you mean accept?"),
        ("colour", "max_memory"),
    ],
)
def test_an_unknown_option_of_a_task_is_told_by_its_name_here(app, option, words):
    with pytest.raises(InvalidError, match=re.escape(words) + "$"):
        app.task(**{option: 1})


def test_an_unknown_option_of_a_call_is_told_by_its_name_here(hello):
    with pytest.raises(InvalidError, match=r"here it is using\(delay=\.\.\.\)"):
        hello.using(countdown=3)


def test_every_remedy_names_what_there_is(hello):
    known = {*CHECKS, *TaskOptions.__annotations__, "rate", "per", "jitter", "max", "backoff"}
    known |= {"on", "never", "max_retries"}
    for option, remedy in OPTIONS.items():
        assert set(re.findall(r"(\w+)=", remedy)) <= known, option
        for name in re.findall(r"\b([A-Z]\w+)\(", remedy):
            assert hasattr(mulligan, name), option
    for attribute, remedy in APP.items():
        for name in re.findall(r"\bapp\.(\w+)", remedy):
            assert hasattr(hello.app, name), attribute
    for method, remedy in METHODS.items():
        for name in re.findall(r"\{task\}\.(\w+)", remedy):
            assert hasattr(hello, name), method
