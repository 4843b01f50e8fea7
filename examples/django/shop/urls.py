"""The shop at /, the admin at /admin/, mulligan's dashboard at /jobs/ for staff."""

from django.contrib import admin
from django.urls import include, path

from shop.views import orders

urlpatterns = [
    path("", orders, name="orders"),
    path("admin/", admin.site.urls),
    path("jobs/", include("mulligan.contrib.django.urls")),
]
