"""The admin, and the dashboard."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("staff/jobs/", include("mulligan.contrib.django.urls")),
]
