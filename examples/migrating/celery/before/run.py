"""What the shop does, and what comes of it: run a worker first.

celery -A tasks worker -Q celery,mail --pool solo
"""

from celery import chord
from tasks import fetch_price, send_mail, total


def main() -> None:
    """A chord, a mail later, a failure, and a mail that is called back."""
    basket = chord(fetch_price.s(item) for item in ("tea", "milk", "sugar"))(total.s())
    print(f"the basket costs {basket.get(timeout=60)}")
    mail = send_mail.apply_async(("ada", "thank you"), countdown=1)
    print(mail.get(timeout=60))
    try:
        fetch_price.delay("gold").get(timeout=60)
    except ConnectionError as error:
        print(f"failed: {error}")
    later = send_mail.apply_async(("bob", "never mind"), countdown=3600)
    later.revoke()
    print("the mail to bob is called back")


if __name__ == "__main__":
    main()
