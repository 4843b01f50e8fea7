"""The shop: a list of orders, and a form to place one."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from shop.models import Order
from shop.tasks import charge


def orders(request: HttpRequest) -> HttpResponse:
    """Show all orders, newest first; a POST places one."""
    if request.method == "POST":
        with transaction.atomic():
            order = Order.objects.create(item=request.POST["item"], card=request.POST["card"])
            charge.enqueue(order.pk)  # exists exactly if the order does
        return redirect("orders")
    return render(request, "shop/orders.html", {"orders": Order.objects.order_by("-pk")})
