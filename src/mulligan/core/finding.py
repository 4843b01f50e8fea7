"""What an operator should know about a store."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warn", "bad"]


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do about it."""

    level: Level
    sentence: str
    remedy: str = ""
