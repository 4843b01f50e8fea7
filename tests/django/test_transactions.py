"""A job that is enqueued in a transaction of Django's exists when that commits, and only then."""

from contextlib import suppress

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction

from mulligan.contrib.django.compat import signals
from tests.django import tasks as ours
from tests.django.conftest import stored_in, work_off


class UndoneError(Exception):
    """Ends a transaction without a commit."""


@pytest.fixture(params=["same", "by URL", "other"])
def made(request, backend, database, tmp_path):
    """Backends whose jobs are in Django's database, by either way to say it, and elsewhere."""
    match request.param:
        case "same":
            return backend(database="default")
        case "by URL":
            return backend(url=database)
    return backend(url=f"sqlite:///{tmp_path}/elsewhere.db")


def test_it_exists_when_the_transaction_has_committed(made):
    made.app.configure()
    with transaction.atomic():
        User.objects.create(username="one")
        result = ours.users.enqueue()
        with suppress(UndoneError), transaction.atomic():
            ours.add.enqueue(1)
            raise UndoneError
    assert stored_in(made.app) == [result.id]
    assert result.enqueued_at is not None
    work_off(made.app, result.id)
    result.refresh()
    assert result.return_value == 1


def test_it_never_exists_when_the_transaction_is_undone(made):
    made.app.configure()
    with suppress(UndoneError), transaction.atomic():
        User.objects.create(username="one")
        ours.users.enqueue()
        raise UndoneError
    assert stored_in(made.app) == []


def test_it_is_told_of_when_it_is_certain(made):
    made.app.configure()
    seen = []

    def note(task_result, **_):
        seen.append(task_result.id)

    signals.task_enqueued.connect(note)
    try:
        with suppress(UndoneError), transaction.atomic():
            ours.add.enqueue(1)
            raise UndoneError
        with transaction.atomic():
            result = ours.add.enqueue(1)
            assert seen == []
    finally:
        signals.task_enqueued.disconnect(note)
    assert seen == [result.id]


def test_what_does_not_fit_is_refused_inside_the_transaction(made):
    made.app.configure()
    with transaction.atomic():
        User.objects.create(username="one")
        with pytest.raises(ValueError, match="missing a required argument"):
            ours.add.enqueue()
    assert User.objects.count() == 1
    assert stored_in(made.app) == []


def test_in_the_same_database_it_is_written_by_the_transaction_itself(backend, database):
    made = backend(database="default")
    call_command("migrate", verbosity=0)  # makes the tables of jobs too
    with transaction.atomic():
        ours.add.enqueue(1)
        assert connection.run_on_commit  # only the wake-up, and the signal
        connection.run_on_commit = []
    assert len(stored_in(made.app)) == 1


def test_it_can_be_had_at_once(backend, project, tmp_path):
    made = backend(url=f"sqlite:///{tmp_path}/elsewhere.db", transactional=False)
    with suppress(UndoneError), transaction.atomic():
        result = ours.add.enqueue(1)
        assert stored_in(made.app) == [result.id]
        raise UndoneError
    assert stored_in(made.app) == [result.id]


async def test_a_coroutine_enqueues_outside_of_transactions(backend, tmp_path):
    made = backend(url=f"sqlite:///{tmp_path}/jobs.db")
    result = await ours.add.aenqueue(1)
    assert stored_in(made.app) == [result.id]
