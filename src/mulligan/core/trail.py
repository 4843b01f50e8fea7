"""What the failures of a job leave for its next attempt: where they were, how long it paused.

A store keeps a trail with the job and hands it out with each claim; it does not look inside.
"""

from typing import NamedTuple

import msgspec

from mulligan.core.errors import UNREADABLE

encode = msgspec.json.Encoder().encode


class Trail(NamedTuple):
    """The regions that failed the job since it was enqueued or replayed, the last one last.

    `delay` is the pause that was chosen after the last failure; `lost` is how many attempts in a
    row ended with their worker; `probes` is how many failed probes used none of its retries. It is
    `keyed` once it has the concurrency key of its task.
    """

    regions: tuple[str, ...] = ()
    delay: float = 0.0
    lost: int = 0
    probes: int = 0
    keyed: bool = False

    def after(
        self, region: str, delay: float, *, lost: bool = False, free: bool = False
    ) -> "Trail":
        """The trail after one more failure."""
        regions = (*(each for each in self.regions if each != region), region)
        lost_now = self.lost + 1 if lost else 0
        return Trail(regions, delay, lost_now, self.probes + free, self.keyed)

    def write(self) -> str:
        """As a store keeps it."""
        return encode(self).decode()


NOWHERE = Trail()
_decode = msgspec.json.Decoder(Trail).decode


def read_trail(written: str) -> Trail:
    """The trail of a job; one that cannot be read is none."""
    if not written:
        return NOWHERE
    try:
        return _decode(written)
    except UNREADABLE:
        return NOWHERE
