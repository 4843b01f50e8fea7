"""Jobs and schedules in Django's admin. There are no tables: all is read from the store."""

from mulligan.contrib.django.admin.jobs import JobAdmin
from mulligan.contrib.django.admin.schedules import ScheduleAdmin

__all__ = ["JobAdmin", "ScheduleAdmin"]
