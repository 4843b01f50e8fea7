"""What events mean to the book of lines and limits."""

from collections.abc import Iterable, Sequence
from typing import Any

from mulligan.core.checks import rounded
from mulligan.core.limits import costs_of, pauses_of
from mulligan.core.lines import First, LineName, joined, left
from mulligan.core.validation import INVALID_RECORD
from mulligan.stores.mongo.document import Doc, line_in, line_text, seconds
from mulligan.stores.mongo.events import ENDED, JOINED, LEFT, USED, Event
from mulligan.stores.mongo.ledger import Root
from mulligan.stores.mongo.line_pages import first_in, needs_of, needs_of_limit, state_key
from mulligan.stores.mongo.lines import LineBook
from mulligan.stores.mongo.pages import JOB, PAGE_OF, Need
from mulligan.stores.mongo.wakeup import News


def needs_of_events(events: Iterable[Event], root: Root) -> list[Need]:
    """What the book needs to know for these."""
    needs: list[Need] = []
    for event in events:
        if event.owed:
            needs.append((JOB, event.key))
        if event.line is not None:
            needs += needs_of(event.line, root)
        if event.kind == ENDED:
            for name, _ in costs_of(event.data["limits"]):
                needs += needs_of_limit(name, root)
        if event.kind == USED:
            names = {*dict(event.data["spent"]), *dict(event.data["pauses"])}
            needs += [(PAGE_OF, state_key(name)) for name in names]
    return needs


def tell(book: LineBook, events: Sequence[Event]) -> list[list[News]]:
    """Tell the book what it does not know yet, in this order; returns whom each is news for."""
    owed = [event for event in events if event.owed]
    docs: dict[Any, Doc | None] = {e.key: book.draft.pages.get((JOB, e.key)) for e in owed}
    new = {event.id: event for event in owed if owes(docs[event.key], event)}
    for event in new.values():
        wait_to_happen(book, event, docs[event.key])
    news: list[list[News]] = []
    for event in events:
        if event.id in new or not event.owed:
            happen(book, event, docs.get(event.key))
        news.append(book.news)
        book.news = []
    if new:
        book.settled.append(([event.key for event in new.values()], list(new)))
    return news


def owes(doc: Doc | None, event: Event) -> bool:
    """Whether the job still owes the event."""
    owed = None if doc is None else doc["mulligan"].get("unbooked")
    return isinstance(owed, list) and any(each["id"] == event.id for each in owed)


def wait_to_happen(book: LineBook, event: Event, doc: Doc | None) -> None:
    """Nothing of it has happened yet, as far as lines are concerned."""
    if event.kind == JOINED and (stands := line_where(doc)) is not None and doc is not None:
        book.hidden.add((line_text(stands), doc["mulligan"]["sequence"]))
    elif event.kind == LEFT and event.line is not None:
        data = event.data
        first = First(seconds(data["due"]), data["sequence"], costs_of(data["costs"]))
        book.stay.setdefault(line_text(event.line), []).append(first)


def happen(book: LineBook, event: Event, doc: Doc | None) -> None:
    """Have the book know of the event."""
    match event.kind:
        case "joined":
            line = line_where(doc)
            if line is not None and doc is not None:
                book.hidden.discard((line_text(line), doc["mulligan"]["sequence"]))
                joined(book, line, first_in(doc))
        case "left":
            if event.line is not None:
                stay = book.stay[line_text(event.line)]
                stay[:] = [each for each in stay if each.sequence != event.data["sequence"]]
                left(book, event.line, event.data["sequence"])
        case "ended":
            data = event.data
            book.end(data["limits"], data["holder"], data["since"])
        case "used":
            use(book, event.data)


def line_where(doc: Doc | None) -> LineName | None:
    """The line in which the job stands now, if it does."""
    if doc is None or doc.get("status") != "pending":
        return None
    private = doc["mulligan"]
    try:
        line = line_in(doc)
        whole = isinstance(private["due"], int) and isinstance(private["sequence"], int)
        stands = line is not None and private.get("lane") == line_text(line)
    except INVALID_RECORD:  # another program wrote into it
        return None
    return line if whole and stands else None


def use(book: LineBook, data: Doc) -> None:
    """Charge what the attempt spent of limits besides, and pause those that it says."""
    for name, cost in data["spent"]:
        book.spend(name, cost)
    names = [(name, book.limit_of(name)) for name, _ in costs_of(data["limits"])]
    said = [(name, pause) for name, pause in data["pauses"]]
    for name, pause in pauses_of(said, data["retry_after"], names):
        book.pause(name, rounded(seconds(data["at"]) + pause), at_least=True)
