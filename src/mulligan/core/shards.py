"""Shards: in which of several stores a job lives, whose turn it is, and what each gets of a cap.

An app may be spread over several whole stores, its shards. A job lives in one of them, with all
that must be atomic with it. The rule is here, once; `stores/shards` carries it out.

What mulligan names itself is spread over all shards, and its id begins with the number of one:
`3_0mb5…`. What a caller names, an id or a unique key, has its home among the shards that there were
at `first`, so that a list which grows moves no key.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from msgspec import Struct, json
from msgspec.structs import replace

from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.core.job import Job, NewJob
from mulligan.core.limit_homes import home_of_limits, limits_of
from mulligan.core.limits import LAST_HOME
from mulligan.core.plan import ClaimPlan, Limit, Source
from mulligan.core.stats import ShardView

MOST_SHARDS = LAST_HOME + 1
# The shard of what belongs to no one job: schedules, counts, notes, and limits without `home=`.
HOME = 0
# Under this name of a schedule each shard keeps which one it is; no schedule can have it.
CARD = "\x01shard"
# Under this one the first shard keeps the homes of limits.
HOMES = "\x01homes"
NO_HOMES: Mapping[str, int] = {}
# None of the marks below: a caller may choose a number as an id.
_TAG = re.compile(r"(0|[1-9]\d{0,3})_")
# What follows from a job has its id, and then one of these.
_END_OF_ROOT = re.compile(r"[.~@]")


# -- where a job lives ---------------------------------------------------------------------------


class Layout(Struct, frozen=True):
    """How many shards there are, and how many there were at first: the homes of names."""

    count: int
    first: int


def tagged(job: str, shard: int) -> str:
    """An id that names its shard."""
    return f"{shard}_{job}"


def tag_of(job: str) -> int | None:
    """The shard that the id names; None if it names none."""
    found = _TAG.match(job)
    return None if found is None else int(found[1])


def root_of(job: str) -> str:
    """The part of an id that all have in common that follow from one job."""
    return _END_OF_ROOT.split(job, 1)[0]


def home_of_name(name: str, layout: Layout) -> int:
    """The home of what a caller names."""
    return crc32(name.encode("utf-8", "surrogatepass")) % layout.first


def home_of_id(job: str, layout: Layout) -> int:
    """Where a job of this id is looked for first."""
    tag = tag_of(job)
    if tag is not None and tag < layout.count:
        return tag
    return home_of_name(root_of(job), layout)


def home_of_key(queue: str, key: str, layout: Layout) -> int:
    """The home of a unique key."""
    return home_of_name(f"{queue}\x00{key}", layout)


def home_of(job: NewJob | Job, layout: Layout, homes: Mapping[str, int] = NO_HOMES) -> int:
    """Where a new job is stored; `homes` are those of limits, by their names.

    Members of a gather are with the job that gathers them, jobs that name limits, or are followed
    by one that does, in the home of these, those of a unique key in that of the key, and all others
    where their id says.
    """
    limits = home_of_limits(limits_of(job), homes)
    if job.gather is not None or job.awaits:
        home = home_of_id(job.gather or job.id, layout)
        if limits is not None and limits != home:
            raise InvalidError(
                f"job {job.id!r} names limits, which live in shard {limits}, and its gather lives"
                f" in shard {home}; leave id= of the gather away, so that it is put there, and have"
                " all limits of a gather share a home"
            )
        return home
    if limits is not None:
        return limits
    if job.unique_key is not None:
        return home_of_key(job.key_queue, job.unique_key, layout)
    check_tag(job.id, layout)
    return home_of_id(job.id, layout)


def check_tag(job: str, layout: Layout) -> None:
    """Refuse an id that names a shard which does not exist."""
    tag = tag_of(job)
    if tag is not None and tag >= layout.count:
        raise InvalidError(
            f"id {job!r} names shard {tag}, and there are {layout.count}, from 0; give an id that"
            " does not begin with a number and _"
        )


def candidates(job: str, layout: Layout) -> list[int]:
    """All shards, in the order in which a job of this id is looked for."""
    first = dict.fromkeys((home_of_id(job, layout), HOME))
    return [*first, *(shard for shard in range(layout.count) if shard not in first)]


def in_shard(shard: int, shards: Sequence[ShardView]) -> str:
    """Which shard a job is in, as the beginning of a sentence about the job."""
    return f"Shard {shard} of {len(shards)} ({shards[shard].url}):"


def absent(shards: Sequence[ShardView]) -> list[str]:
    """A sentence for each shard that is away."""
    return [
        f"shard {each.shard} ({each.url}) is away: {each.away}; its jobs wait until it is back, and"
        " those of the others go on"
        for each in shards
        if each.away is not None
    ]


# -- what each is given of a cap -----------------------------------------------------------------


def share(limit: int, shard: int, count: int) -> int:
    """The part of a shard in a limit that is divided among all of them."""
    return limit // count + (shard < limit % count)


def check_settings(queue: str, settings: QueueSettings, count: int) -> None:
    """Refuse a cap or a budget of which some shard would have nothing, so that it never retries."""
    said: list[tuple[str, int | None]] = []
    if isinstance(settings.policy, Capped):
        said.append(("cap", settings.policy.limit))
    if settings.budget is not None:
        said.append(("budget", settings.budget.limit))
    for what, limit in said:
        if limit is not None and limit < count:
            raise InvalidError(
                f"queue {queue!r}: a {what} of {limit} cannot be divided among {count} shards, as"
                f" each needs at least 1; raise it to {count}, or use app.limit(), which is not"
                " divided"
            )


def check_scheduled(name: str, job: NewJob, homes: Mapping[str, int] = NO_HOMES) -> None:
    """Refuse a schedule whose ticks would have another home than the schedule."""
    if job.unique_key is not None:
        raise InvalidError(
            f"schedule {name!r}: its call has the unique key {job.unique_key!r}, whose home may be"
            " another shard than that of schedules; leave unique_key away, as a schedule places"
            " each tick once"
        )
    home = home_of_limits(limits_of(job), homes)
    if home:
        raise InvalidError(
            f"schedule {name!r}: its call names limits of shard {home}, and schedules live in shard"
            f" {HOME}; let it call a task without limits that enqueues the other"
        )


def divided(plan: ClaimPlan, shard: int, count: int) -> ClaimPlan:
    """The plan as one shard walks it: with its part of each cap and budget."""
    if count == 1 or not plan.limit_keys:
        return plan
    plans: dict[tuple[int, int], ClaimPlan] = plan.__dict__.setdefault("divided", {})
    made = plans.get((shard, count))
    if made is None:
        groups = tuple(
            replace(
                group,
                tiers=tuple(
                    tuple(divided_source(source, shard, count) for source in tier)
                    for tier in group.tiers
                ),
            )
            for group in plan.groups
        )
        made = plans[shard, count] = replace(plan, groups=groups)
    return made


def divided_source(source: Source, shard: int, count: int) -> Source:
    """The source with this shard's part of its limits."""
    if not source.limits:
        return source
    limits = tuple([divided_limit(limit, shard, count) for limit in source.limits])
    return replace(source, limits=limits)


def divided_limit(limit: Limit, shard: int, count: int) -> Limit:
    """The part of the shard, at least 1: probes, and the floor of a ratio, are for each shard."""
    if limit.limit is None:
        return limit
    return replace(limit, limit=max(1, share(limit.limit, shard, count)))


def less(plan: ClaimPlan, taken: int, epoch: int) -> ClaimPlan:
    """The plan for the next shard, after others have given so many jobs."""
    if not taken:
        return plan if plan.epoch == epoch else replace(plan, epoch=epoch)
    steps = tuple([replace(step, until=max(0, step.until - taken)) for step in plan.steps])
    return replace(plan, demand=plan.demand - taken, steps=steps, epoch=epoch)


# -- which shard a store is ----------------------------------------------------------------------


class Card(Struct, frozen=True):
    """What each shard keeps of itself: of which app it is which one, of how many.

    `first` is how many there were at first. The list of shards only grows. `turn` grows with every
    change that plans made before must not outlive.
    """

    app: str
    shard: int
    count: int
    first: int
    turn: int = 0


_decode_card = json.Decoder(Card).decode
_encode_card = json.Encoder().encode


def write_card(card: Card) -> bytes:
    """The card as a shard keeps it."""
    return _encode_card(card)


def read_card(written: bytes | None) -> Card | None:
    """The card of a shard; None if it has none."""
    try:
        return None if written is None else _decode_card(written)
    except UNREADABLE:
        raise InvalidError(
            "what a shard says of itself cannot be read; if a newer release wrote it, upgrade"
            " mulligan here too"
        ) from None


def check_cards(cards: Sequence[Card | None], shown: Sequence[str]) -> None:
    """Refuse a list of shards other than the known one, perhaps with new ones at its end.

    Of a shard that is away nothing is known, and its card is None here.
    """
    apps = {card.app for card in cards if card is not None}
    for number, card in enumerate(cards):
        if card is None:
            continue
        if len(apps) > 1:
            raise InvalidError(
                f"shard {number} ({shown[number]}) belongs to another app than the others in the"
                " list; list only shards of one app"
            )
        if card.shard != number:
            raise InvalidError(
                f"{shown[number]} is shard {card.shard} of its app, and the list has it as shard"
                f" {number}; list shards in the order in which they were first listed, each once,"
                " and new ones at the end"
            )
        if card.count > len(cards):
            raise InvalidError(
                f"the app has {card.count} shards, and the list has {len(cards)}; list all of them,"
                " as jobs may be in each: to have fewer, copy the jobs to a new app with"
                " mulligan copy"
            )


def first_of(cards: Iterable[Card | None], *, used: bool, count: int) -> int:
    """How many shards there were at first: one, if there is no card and the store was in use."""
    known = [card.first for card in cards if card is not None]
    return known[0] if known else (1 if used else count)
