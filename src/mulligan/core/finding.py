"""What an operator should know about a store."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warn", "bad"]


class Finding(NamedTuple):
    """A finding of `doctor`: its level, a sentence, and what to do about it."""

    level: Level
    sentence: str
    remedy: str = ""
