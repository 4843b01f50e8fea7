"""What the shop does, and what comes of it: run a consumer first.

huey_consumer tasks.huey -w 4
"""

from huey.exceptions import TaskException
from tasks import fetch_price, send_mail, total


def main() -> None:
    """A map, a mail later, a failure, and a mail that is called back."""
    prices = fetch_price.map(["tea", "milk", "sugar"])
    basket = total(prices.get(blocking=True, timeout=60))
    print(f"the basket costs {basket.get(blocking=True, timeout=60)}")
    mail = send_mail.schedule(args=("ada", "thank you"), delay=1)
    print(mail.get(blocking=True, timeout=60))
    try:
        fetch_price("gold").get(blocking=True, timeout=60)
    except TaskException as failure:
        print(f"failed: {failure.metadata['error'].split('(', 1)[1].strip(')').strip(chr(39))}")
    later = send_mail.schedule(args=("bob", "never mind"), delay=3600)
    later.revoke()
    print("the mail to bob is called back")


if __name__ == "__main__":
    main()
