"""What Django's admin and permissions know of jobs. There is no table: jobs are in their store."""

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
