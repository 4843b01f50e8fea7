"""A task in a module that workers do not import by themselves."""

from tests.django.tasks import task


@task
def lost() -> None:
    """Does nothing."""
