"""Models without tables, for Django's admin and permissions: jobs and schedules are in a store."""

from typing import ClassVar

from django.db import models


class Job(models.Model):
    """A job, by its id; `view_job` is to see them, `change_job` to replay and to cancel them."""

    id = models.CharField(primary_key=True, max_length=255)

    class Meta:
        """Without a table; with permissions, which `manage.py migrate` makes."""

        managed = False
        default_permissions: ClassVar = ("view", "change")

    def __str__(self) -> str:
        return str(self.id)


class Schedule(models.Model):
    """A schedule, by its name.

    `view_schedule` is to see them, `change_schedule` to edit, pause, resume and run them,
    `add_schedule` and `delete_schedule` to store new ones and to remove them.
    """

    name = models.CharField(primary_key=True, max_length=255)

    class Meta:
        """Without a table; with Django's usual permissions, which `manage.py migrate` makes."""

        managed = False

    def __str__(self) -> str:
        return str(self.name)
