"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order, and how far it has come."""

    item = models.CharField(max_length=100)
    card = models.CharField(max_length=20)
    state = models.CharField(max_length=20, default="placed")
    receipts = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"order {self.pk}: {self.item}"
