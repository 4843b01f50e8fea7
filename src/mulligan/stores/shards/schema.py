"""Which shard each store is: its card, written once, and compared at every connect.

The card is kept as the record of a schedule that no app can have, because that is what a store
replaces only if it is still as it was, and what makes plans made before be refused.
"""

import os
from collections.abc import Sequence

from msgspec.structs import replace

from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.core.limit_homes import read_homes
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import read_schedules
from mulligan.core.shards import (
    CARD,
    HOME,
    HOMES,
    Card,
    Layout,
    check_cards,
    check_scheduled,
    check_settings,
    first_of,
    read_card,
    write_card,
)
from mulligan.core.stats import Stats
from mulligan.stores.shards.connection import AWAY, Shard, Shards
from mulligan.stores.shards.named_limits import tell_missed

PROBE = "shard-probe:"
KEEP_PROBE = 60.0
# How often the cards are looked at again when another process writes them at the same time.
TRIES = 10


async def prepare(shards: Shards, *, read_only: bool) -> None:
    """Open every shard, and check that the list is the known one, or longer.

    One that is away is looked at when it is back; but a list is made, and grows, while all answer.
    """
    opened = await shards.each(lambda each: each.store.open(read_only=read_only), shards.all)
    shards.memory.away.difference_update(number for number, _ in opened)
    for _ in range(TRIES):
        cards = await read_cards(shards)
        known = [cards.get(shard.number) for shard in shards.all]
        check_cards(known, [shard.shown for shard in shards.all])
        counts = {card.count for card in known if card is not None}
        absent = [shard for shard in shards.all if shard.away is not None]
        as_it_was = counts == {shards.count} and (absent or None not in known)
        if as_it_was or read_only:
            first = first_of(known, used=False, count=shards.count)
            shards.layout = Layout(shards.count, first)
            return
        if absent:
            raise StoreUnavailableError(
                f"shard {absent[0].number} ({absent[0].shown}) is away: {absent[0].away}; a list of"
                " shards is made, and grows, while all of them answer"
            )
        await check_apart(shards, known)
        await write_cards(shards, known)  # and read what is there now
    raise StoreUnavailableError("other processes change the list of shards; try again")


async def read_cards(shards: Shards) -> dict[int, Card | None]:
    """The cards of the shards that answer."""
    found = await shards.each(lambda shard: shard.store.schedules())
    for number, records in found:
        if number == HOME:
            shards.memory.limit_homes = read_homes(records.get(HOMES))
    return {number: read_card(records.get(CARD)) for number, records in found}


async def check_apart(shards: Shards, known: list[Card | None]) -> None:
    """Refuse two names of one store, before anything of it is written."""
    mark = f"{PROBE}{os.urandom(8).hex()}:"
    added = [shard for shard in shards.all if known[shard.number] is None]
    for shard in added:
        await shard.store.note(f"{mark}{shard.number}", b"1", KEEP_PROBE)
    seen: dict[str, int] = {}
    twice: tuple[int, int] | None = None
    for shard in shards.all:
        for key in await shard.store.notes(mark):
            if key in seen:
                twice = seen[key], shard.number
            seen[key] = shard.number
    for shard in added:
        await shard.store.note(f"{mark}{shard.number}", None, KEEP_PROBE)
    if twice is not None:
        one, other = (shards.all[number].shown for number in twice)
        raise InvalidError(
            f"shards {twice[0]} ({one}) and {twice[1]} ({other}) are the same store; list each"
            " store once"
        )


async def write_cards(shards: Shards, known: list[Card | None]) -> None:
    """Tell each shard which one it is; new ones first, so that a list has grown when all have."""
    home = shards.all[HOME].store
    for queue, settings in (await home.facts()).queues.items():
        check_settings(queue, settings, shards.count)
    for name, stored in read_schedules(await home.schedules()).items():
        check_scheduled(name, stored.schedule.new_job(name, 0.0))
    used = known[HOME] is None and is_used(await home.stats())
    first = first_of(known, used=used, count=shards.count)
    apps = [card.app for card in known if card is not None]
    app = apps[0] if apps else os.urandom(8).hex()
    for shard in sorted(shards.all, key=lambda shard: known[shard.number] is not None):
        before = known[shard.number]
        turn = 0 if before is None else before.turn + 1
        after = Card(app, shard.number, shards.count, first, turn)
        if before is None or before.count != shards.count:
            await replace_card(shard, before, after)
        if not apps:
            # Another process may have been first: what is there now names the app.
            there = read_card((await shard.store.schedules()).get(CARD))
            if there is None or there.app != app:
                return


def is_used(stats: Stats) -> bool:
    """Whether the store has jobs of an app that had no shards."""
    return bool(stats.lanes or stats.running or stats.ended or stats.gathering)


async def replace_card(shard: Shard, before: Card | None, after: Card) -> bool:
    """Write a card if it is still as it was; plans made before are refused from now on."""
    written = None if before is None else write_card(before)
    return await shard.store.reschedule(Reschedule(CARD, written, write_card(after), edit=True))


async def refuse_older_plans(shards: Shards) -> None:
    """Have every shard refuse plans that were made before; one that is away has no plans."""

    async def turn(shard: Shard) -> None:
        card = read_card((await shard.store.schedules()).get(CARD))
        if card is not None:
            await replace_card(shard, card, replace(card, turn=card.turn + 1))

    others = [shard for shard in shards.present if shard.number != HOME]
    if others:
        await shards.each(turn, others)


async def check_not_grown(shards: Shards, answered: Sequence[int]) -> None:
    """Refuse to go on with a list that is shorter than the app's by now: caps would be exceeded.

    One shard is asked, of those that have just answered.
    """
    for number in answered:
        try:
            card = read_card((await shards.all[number].store.schedules()).get(CARD))
        except AWAY:
            continue
        if card is not None and card.count > shards.count:
            raise InvalidError(
                f"the app has grown to {card.count} shards, and this process knows"
                f" {shards.count}; start it again with the whole list"
            )
        return


async def welcome(shards: Shards, shard: Shard) -> None:
    """A shard is back: check that it is the right one, and tell it what it missed."""
    card = read_card((await shard.store.schedules()).get(CARD))
    cards: list[Card | None] = [None] * shards.count
    cards[shard.number] = card
    check_cards(cards, [each.shown for each in shards.all])
    await tell_missed(shards, shard.number, shard.store)
    if shard.number == HOME or shards.all[HOME].away is not None:
        return
    home, there = await shards.all[HOME].store.facts(), await shard.store.facts()
    for queue, settings in home.queues.items():
        if there.queues.get(queue) != settings:
            await shard.store.configure(queue, settings)
    for queue in home.paused ^ there.paused:
        await shard.store.pause(queue, paused=queue in home.paused)
