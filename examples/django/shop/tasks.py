"""What the shop does in the background."""

from django.db import transaction

from mulligan import Delays, Retry
from shop.models import Order

try:
    from django.tasks import TaskContext, task
except ImportError:  # Django 5.2
    from django_tasks import TaskContext, task


class CardDeclinedError(Exception):
    """The bank said no: trying again will not help."""


class GatewayTimeoutError(Exception):
    """The payment gateway did not answer: the next attempt may work."""


@task(
    takes_context=True,
    retry=Retry(3, Delays((0.2, 1, 5)), never=[CardDeclinedError]),
)
def charge(context: TaskContext, order_id: int) -> str:
    """Take the money, and send the receipt exactly if that is stored."""
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        if order.card == "slow" and context.attempt == 1:
            raise GatewayTimeoutError("no answer within 3 s")
        if order.card == "declined":
            raise CardDeclinedError(f"the bank declined {order}")
        order.state = "paid"
        order.save(update_fields=["state"])
        receipt.enqueue(order_id)
    return order.state


@task(cron="0 3 * * *", timezone="Europe/Berlin")
def forget_declined() -> int:
    """Delete, every night, the orders that nobody could pay."""
    count, _ = Order.objects.filter(card="declined").exclude(state="paid").delete()
    return count


@task(queue_name="mail", priority=10)
async def receipt(order_id: int) -> int:
    """Send a receipt, urgently: before other mail that waits."""
    order = await Order.objects.aget(pk=order_id)
    order.receipts += 1
    await order.asave(update_fields=["receipts"])
    return order.receipts
