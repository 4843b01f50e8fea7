"""`path("jobs/", include("mulligan.contrib.django.urls"))`: the dashboard, for staff."""

from django.urls import path

from mulligan.contrib.django.views import dashboard

app_name = "mulligan"
urlpatterns = [
    path("", dashboard, name="dashboard"),
    path("<path:below>", dashboard),
]
