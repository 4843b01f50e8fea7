"""What the shop does, and what comes of it: run a worker first.

mulligan worker tasks:app
"""

from tasks import app, fetch_price, send_mail, total

from mulligan import JobFailedError


def main() -> None:
    """A gather, a mail later, a failure, and a mail that is called back."""
    calls = [fetch_price.call(item) for item in ("tea", "milk", "sugar")]
    basket = app.gather(calls, total)
    print(f"the basket costs {basket.result(timeout=60)}")
    mail = send_mail.using(delay=1).enqueue("ada", "thank you")
    print(mail.result(timeout=60))
    gold = fetch_price.enqueue("gold")
    try:
        gold.result(timeout=60)
    except JobFailedError as error:
        print(f"failed: {error.attempts[-1].message}")
    later = send_mail.using(delay=3600).enqueue("bob", "never mind")
    later.cancel()
    print("the mail to bob is called back")


if __name__ == "__main__":
    main()
