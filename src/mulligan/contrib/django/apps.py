"""How Django knows this package: among its INSTALLED_APPS."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class MulliganConfig(AppConfig):
    """The command `manage.py mulligan`, and the jobs in the admin."""

    name = "mulligan.contrib.django"
    label = "mulligan"
    verbose_name = "mulligan"
    default_auto_field = "django.db.models.AutoField"

    def ready(self) -> None:
        """Have `manage.py migrate` make the tables of jobs, where they are in Django's database."""
        post_migrate.connect(make_tables, sender=self)


def make_tables(using: str, **_: Any) -> None:
    """Make the tables of every backend in this database, and keep no connection to it."""
    from mulligan.contrib.django.registry import home_of, our_aliases  # noqa: PLC0415 - needs apps

    for alias in our_aliases():
        home = home_of(alias)
        if home.database == using:
            home.app.configure()
            home.app.close()
