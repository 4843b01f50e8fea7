"""When a periodic task runs: ticks, by the store's clock."""

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


class Schedule(Protocol):
    """A schedule; its text identifies it."""

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
        self._period = check_seconds("every", period, least=LEAST_EVERY)
        self.words = f"every {self._period!r}"

    def after(self, moment: float) -> float:
        """The first tick later than this moment."""
        return self._tick(self._number(moment) + 1)

    def last(self, moment: float) -> float:
        """The newest tick that is not later."""
        return self._tick(self._number(moment))

    def _tick(self, number: int) -> float:
        # Computed from its number: a sum of periods would drift, and give one tick two times.
        return rounded(number * self._period)

    def _number(self, moment: float) -> int:
        number = int(moment // self._period) + 1  # may be one too high, or two by rounding
        while self._tick(number) > moment:
            number -= 1
        return number


class Cron:
    """Ticks of a cron expression in a time zone, by default UTC."""

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - only cron schedules need it

        self.words = f"cron {expression} {timezone}"
        self._expression = expression
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
        ticks = self._make(self._expression, late, reverse=True)
        return next(at for tick in ticks if (at := tick.timestamp()) <= moment)

    def _at(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, UTC).astimezone(self._zone)

    def _put_back_before(self, moment: float) -> float:
        """By how many seconds the clocks were set back shortly before."""
        then, now = self._at(moment - SHORTLY).utcoffset(), self._at(moment).utcoffset()
        return max(0.0, ((then or NO_TIME) - (now or NO_TIME)).total_seconds())

    def _ticks(self, start: datetime) -> "Iterator[datetime]":
        return self._make(self._expression, start.astimezone(self._zone))
