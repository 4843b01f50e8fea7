"""Limits that jobs name and fairness keys, as scripts write and give them."""

from typing import Any

import msgspec
from msgspec.structs import replace

from mulligan.core.checks import seconds
from mulligan.core.limits import KeyView, Limit, LimitState, LimitView, StoredLimit, view_of
from mulligan.core.lines import TURN
from mulligan.stores.redis.fields import JSON, lane_of, limit_name

decode_limit = msgspec.json.Decoder(Limit).decode


def limit_text(limit: Limit | None) -> bytes:
    """A limit as it is kept, its window in seconds; nothing for none."""
    return b"" if limit is None else JSON.encode(replace(limit, per=seconds(limit.per)))


def stored_of(text: bytes) -> StoredLimit:
    """A limit as it was kept."""
    if not text:
        return StoredLimit()
    declared, _, set_instead = text.partition(b"\n")
    return StoredLimit(
        decode_limit(declared) if declared else None,
        decode_limit(set_instead) if set_instead else None,
    )


def state_of(text: bytes, starts: list[bytes]) -> LimitState:
    """What is used of a limit, from its page."""
    used, full_at, paused_until, _ = (text or b"0 0 0 0").split()
    counted = [tuple(map(int, each.split())) for each in starts]
    return LimitState(
        int(used), [(at, cost) for at, cost in counted], int(full_at), float(paused_until)
    )


def limits_of(answer: list[Any]) -> list[LimitView]:
    """What limits.lua gave."""
    stamp, *rows = answer
    return [
        view_of(
            limit_name(name.decode()),
            stored_of(stored),
            stored_of(covering).in_force,
            state_of(state, starts),
            waiting=waiting,
            now=float(stamp),
        )
        for name, stored, covering, state, starts, waiting in rows
    ]


def keys_of(answer: list[Any]) -> list[KeyView]:
    """What keys.lua gave."""
    views = [
        KeyView(lane_of(lane.decode()), key_of(key), waiting, turns / TURN)
        for lane, key, waiting, turns in answer
    ]
    return sorted(views, key=lambda each: (-each.waiting, each.lane, each.key))


def key_of(text: bytes) -> str:
    """A fairness key, as the names of lines spell it."""
    return text.decode().replace("%09", "\t").replace("%25", "%")
