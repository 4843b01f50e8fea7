"""When a schedule ticks, by the store's clock: a cron expression, or a period."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mulligan.core.checks import Seconds, check_seconds, rounded
from mulligan.core.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_EVERY = 1.0
SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)
# Longer than any clock change.
SHORTLY = 2 * 3600.0
NO_TIME = timedelta(0)
# Less than what lies between two ticks, and more than a float loses.
RESOLUTION = 1e-3


class Timing(Protocol):
    """When ticks are; its text identifies it."""

    words: str

    def after(self, moment: float) -> float:
        """The first tick later than this moment, in seconds since 1970."""
        ...

    def last(self, moment: float) -> float:
        """The newest tick that is not later than this moment."""
        ...


class Every:
    """A tick every so many seconds, counted from 1970, so that all processes agree."""

    def __init__(self, period: Seconds) -> None:
        self.period = check_seconds("every", period, least=LEAST_EVERY)
        self.words = f"every {self.period!r}"

    def after(self, moment: float) -> float:
        """The first tick later than this moment."""
        return self._tick(self._number(moment) + 1)

    def last(self, moment: float) -> float:
        """The newest tick that is not later."""
        return self._tick(self._number(moment))

    def _tick(self, number: int) -> float:
        # Computed from its number: a sum of periods would drift, and give one tick two times.
        return rounded(number * self.period)

    def _number(self, moment: float) -> int:
        number = int(moment // self.period) + 1  # may be one too high, or two by rounding
        while self._tick(number) > moment:
            number -= 1
        return number


class Cron:
    """Ticks of a cron expression in a time zone, by default UTC."""

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - only cron schedules need it

        self.words = f"cron {expression} {timezone}"
        self.expression, self.timezone = expression, timezone
        self._make = CronSim
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidError(
                f"timezone {timezone!r} is not known; use a name such as Europe/Berlin"
            ) from error
        try:
            next(self._ticks(SOME_DAY))
        except (CronSimError, StopIteration, AttributeError, TypeError) as error:
            raise InvalidError(
                f"cron {expression!r} cannot be read ({str(error) or 'it never ticks'});"
                " write five fields such as '*/5 * * * *'"
            ) from error

    def after(self, moment: float) -> float:
        """The first tick later than this moment."""
        # In an hour that occurs twice, a tick of the first occurrence is found again.
        ticks = self._ticks(self._at(moment))
        return next(at for tick in ticks if (at := tick.timestamp()) > moment)

    def last(self, moment: float) -> float:
        """The newest tick that is not later."""
        # Search backwards from a second later, to find a tick that is now, plus the time by which
        # clocks were set back, to find one that they show as still to come.
        late = self._at(moment + self._put_back_before(moment) + 1)
        ticks = self._make(self.expression, late, reverse=True)
        return next(at for tick in ticks if (at := tick.timestamp()) <= moment)

    def _at(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, UTC).astimezone(self._zone)

    def _put_back_before(self, moment: float) -> float:
        """By how many seconds the clocks were set back shortly before."""
        then, now = self._at(moment - SHORTLY).utcoffset(), self._at(moment).utcoffset()
        return max(0.0, ((then or NO_TIME) - (now or NO_TIME)).total_seconds())

    def _ticks(self, start: datetime) -> "Iterator[datetime]":
        return self._make(self.expression, start.astimezone(self._zone))


def timing_of(cron: str | None, every: Seconds | None, timezone: str | None) -> "Timing | None":
    """The timing that these words give; None if neither `cron` nor `every` is given."""
    if cron is not None and every is not None:
        raise InvalidError(f"cron {cron!r} and every {every!r}: give one of them")
    if timezone is not None and cron is None:
        raise InvalidError(f"timezone {timezone!r} goes with cron=, which is missing")
    if cron is not None:
        return Cron(cron, timezone or "UTC")
    return None if every is None else Every(every)


def said_by(timing: "Timing") -> dict[str, str | float | None]:
    """The words that give this timing, by name."""
    if isinstance(timing, Cron):
        return {"cron": timing.expression, "every": None, "timezone": timing.timezone}
    return {"cron": None, "every": getattr(timing, "period", None), "timezone": None}


def ticks_after(timing: "Timing", moment: float, count: int) -> list[float]:
    """So many ticks, the first of them later than this moment."""
    ticks: list[float] = []
    while len(ticks) < count:
        moment = timing.after(moment)
        ticks.append(moment)
    return ticks


def ticks_between(timing: "Timing", start: float, end: float, most: int) -> list[float]:
    """The ticks later than `start` and not later than `end`, at most the newest so many."""
    ticks: list[float] = []
    tick = timing.last(end)
    while tick > start and len(ticks) < most:
        ticks.append(tick)
        tick = timing.last(tick - RESOLUTION)
    return ticks[::-1]
