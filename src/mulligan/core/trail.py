"""The trail of a job: what its failures leave for the next attempt.

A store keeps it with the job and returns it with each claim, without reading it.
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
        """The trail as text, for a store to keep."""
        return encode(self).decode()


NOWHERE = Trail()
_decode = msgspec.json.Decoder(Trail).decode


def read_trail(written: str) -> Trail:
    """The trail of a job; an empty one if it cannot be read."""
    if not written:
        return NOWHERE
    try:
        return _decode(written)
    except UNREADABLE:
        return NOWHERE
