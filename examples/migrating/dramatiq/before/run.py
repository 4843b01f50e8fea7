"""What the shop does, and what comes of it: run a worker first.

dramatiq tasks --processes 1 --threads 4
"""

from dramatiq import group
from dramatiq.results import ResultFailure
from tasks import fetch_price, redis, send_mail, total

MINUTE = 60_000


def main() -> None:
    """A group, a mail later, a failure, and a mail that is called back."""
    prices = group(fetch_price.message(item) for item in ("tea", "milk", "sugar")).run()
    basket = total.send(list(prices.get_results(block=True, timeout=MINUTE)))
    print(f"the basket costs {basket.get_result(block=True, timeout=MINUTE)}")
    mail = send_mail.send_with_options(args=("ada", "thank you"), delay=1000)
    print(mail.get_result(block=True, timeout=MINUTE))
    try:
        fetch_price.send("gold").get_result(block=True, timeout=MINUTE)
    except ResultFailure as failure:
        print(f"failed: {failure.orig_exc_msg}")
    later = send_mail.send_with_options(args=("bob", "never mind"), delay=3_600_000)
    redis.sadd("called-back", later.message_id)
    print("the mail to bob is called back")


if __name__ == "__main__":
    main()
