"""Orders in the admin."""

from django.contrib import admin

from shop.models import Order

admin.site.register(Order, list_display=["item", "card", "state", "receipts"])
