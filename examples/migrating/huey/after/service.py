"""The shop's price service: busy at the first call for each item, and always so for one."""


def price(item: str, *, earlier_failures: int) -> int:
    """What an item costs; raises ConnectionError while the service is busy."""
    if item == "gold" or earlier_failures == 0:
        raise ConnectionError(f"no price for {item}: busy")
    return 10 * len(item)
