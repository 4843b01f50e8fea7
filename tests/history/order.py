"""In which order things happened, when several processes wrote it down.

An operation happened at some instant between its begin and its end. Of two that do not overlap,
the one that ended first was first: nothing that is said can change that. Of two that do, what they
say decides (`causes`). Where nothing is said, the first to begin is first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from tests.history.causes import Causes
from tests.history.events import AnyEvent, Stock, latest


def in_order(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The events of several processes, as one history."""
    known = sorted(events, key=lambda event: event.began)
    others = [event for event in known if not isinstance(event, Stock)]
    stocks = [event for event in known if isinstance(event, Stock)]
    return [*woven(others, Causes(others).edges()), *stocks]


def woven(events: Sequence[AnyEvent], before: dict[int, set[int]]) -> Iterator[AnyEvent]:
    """Each event after those that must be before it, as far as time allows."""
    after: dict[int, list[int]] = defaultdict(list)
    for later, earlier in before.items():
        for each in earlier:
            after[each].append(later)
    open_ = {later: len(earlier) for later, earlier in before.items()}
    ready = [number for number in range(len(events)) if number not in open_]
    heapify(ready)
    told: set[int] = set()
    for due in sorted(range(len(events)), key=lambda number: latest(events[number])):
        while due not in told:
            # What began after this one had ended is not before it, whatever they say.
            may = bool(ready) and events[ready[0]].began <= latest(events[due])
            number = heappop(ready) if may else due
            if number in told:
                continue
            told.add(number)
            yield events[number]
            for later in after[number]:
                open_[later] -= 1
                if open_[later] == 0:
                    heappush(ready, later)
