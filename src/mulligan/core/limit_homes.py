"""The home of a limit: the one shard in which all jobs live that name it.

A limit is exact because one store counts it. Which one is said where it is declared, shard 0 if
nothing is, and never changes: jobs that were stored before would not be counted with later ones.
What a family covers lives with it, so that the home of a name is known from any of the two.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import json

from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.job import Job, NewJob
from mulligan.core.limits import costs_of, covering

# What a body says of the limits of jobs that follow: JSON, as text.
_NAMED_LATER = re.compile(rb'"limits":("(?:[^"\\]|\\.)*+")')
_decode_text = json.Decoder(str).decode
_decode_homes = json.Decoder(dict[str, int]).decode
_encode_homes = json.Encoder(order="sorted").encode


def limits_of(job: NewJob | Job) -> list[str]:
    """The names of all limits that the job names, or one that follows from it."""
    names = [name for name, _ in costs_of(job.limits)]
    for written in _NAMED_LATER.findall(job.body) if b'"limits":' in job.body else ():
        try:
            names += [name for name, _ in costs_of(_decode_text(written))]
        except UNREADABLE:  # an argument of the user's that is called so too
            continue
    return names


def home_of_limit(name: str, homes: Mapping[str, int]) -> int | None:
    """The home of a limit; None if nothing that covers it has one."""
    by = covering(name, homes)
    return None if by is None else homes[by]


def home_of_limits(names: Iterable[str], homes: Mapping[str, int]) -> int | None:
    """The home that these limits share, 0 of one that has none; None without limits."""
    found: dict[int, str] = {}
    for name in names:
        found.setdefault(home_of_limit(name, homes) or 0, name)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise InvalidError(
            f"limit {first!r} lives in shard {one} and limit {second!r} in shard {other}: what one"
            " job and those that follow from it name must live together; give both the same home="
        )
    return next(iter(found), None)


def check_home(name: str, home: int, homes: Mapping[str, int]) -> None:
    """Refuse a home other than the one that the limit has, or that a family gives it."""
    for known, there in homes.items():
        if there == home:
            continue
        if known == name:
            raise InvalidError(
                f"limit {name!r} lives in shard {there}, and is declared with home={home}; a limit"
                f" does not move: say home={there}, or use another name"
            )
        if covering(name, [known]) or covering(known, [name]):
            raise InvalidError(
                f"limit {name!r} is declared with home={home}, and {known!r} lives in shard"
                f" {there}; a family and what it covers live together: say home={there}"
            )


def read_homes(written: bytes | None) -> dict[str, int]:
    """The homes as the first shard keeps them."""
    try:
        return {} if written is None else _decode_homes(written)
    except UNREADABLE:
        raise InvalidError(
            "what shard 0 says of the homes of limits cannot be read; if a newer release wrote it,"
            " upgrade mulligan here too"
        ) from None


def write_homes(homes: Mapping[str, int]) -> bytes:
    """The homes as the first shard keeps them."""
    return _encode_homes(homes)
