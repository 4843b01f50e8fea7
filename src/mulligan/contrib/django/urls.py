"""`path("jobs/", include("mulligan.contrib.django.urls"))`: the dashboard, for staff."""

from django.urls import path

from mulligan.contrib.missing import missing

try:
    from mulligan.contrib.django.views import dashboard
except ModuleNotFoundError as error:
    raise missing(error, __name__, "django") from error

app_name = "mulligan"
urlpatterns = [
    path("", dashboard, name="dashboard"),
    path("<path:below>", dashboard),
]
