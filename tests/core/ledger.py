"""Keeps the books of a share: how far what one side got has drifted from what it was promised."""

from mulligan.core.plan import ONE


class Ledger:
    """Starts of one side against its share of all of them, exactly, in millionths of a start."""

    def __init__(self, share: float) -> None:
        self.share = round(share * ONE)
        self.drift = self.lowest = self.highest = 0

    def book(self, got: int, total: int) -> None:
        """Of `total` starts this side got so many."""
        self.drift += got * ONE - total * self.share
        self.lowest = min(self.lowest, self.drift)
        self.highest = max(self.highest, self.drift)

    def forget(self) -> None:
        """One of the sides did not wait: what was before no longer counts."""
        self.drift = self.lowest = self.highest = 0

    @property
    def within_one_start(self) -> bool:
        """Whether in every run of bookings this side got its share within one start."""
        return self.highest - self.lowest < ONE


def longest_wait(share: float) -> int:
    """Starts of the others that a side with this share may have to wait for: ceil(1/share) - 1."""
    return -(-ONE // round(share * ONE)) - 1
