"""The lines of lanes and the turns of fairness keys: the book of `core.lines`."""

from collections.abc import Iterable
from itertools import islice

from mulligan.core.lane import Lane
from mulligan.core.limits import (
    StoredLimit,
    costs_of,
    covering,
    is_recounted,
    recount,
    refund,
)
from mulligan.core.lines import NO_KEY, First, Key, Line, LineName, opened
from mulligan.stores.mongo.document import (
    Doc,
    lane_from,
    lane_name,
    line_text,
    micros,
    seconds,
)
from mulligan.stores.mongo.ledger import LaneFacts, Root, StoredLimits
from mulligan.stores.mongo.limit_states import LimitStates
from mulligan.stores.mongo.line_pages import (
    alarm_key,
    first_in,
    line_from,
    line_key,
    page_of,
    stored_key,
    text_from,
    turn_key,
)
from mulligan.stores.mongo.pages import (
    ALARMS,
    IDLE,
    JOBS,
    KEYS,
    LANES_AT,
    LATER,
    READY,
    STATES,
    WAITED_FOR,
    WAITING,
    MissingPageError,
    Pages,
    Window,
)
from mulligan.stores.mongo.wakeup import News


class LineBook(LimitStates):
    """What a change of the book reads and writes, at one instant.

    Jobs that are `hidden` have yet to join their lines, and those that `stay` have yet to leave:
    jobs of a batch do so one after the other, though their documents were written together.
    """

    def __init__(self, pages: Pages, root: Root, stored: StoredLimits, now: int) -> None:
        super().__init__(pages, root, stored, now)
        self.news: list[News] = []
        self.hidden: set[tuple[str, int]] = set()
        self.stay: dict[str, list[First]] = {}
        self._gone: set[tuple[str, int]] = set()
        # Of each line how many of its first jobs are gone.
        self._passed: dict[str, int] = {}

    # -- jobs ------------------------------------------------------------------------------------

    def first_doc(self, text: str) -> Doc | None:
        """The document of the first job that stands in a line, as it was read."""
        window: Window = self.draft.pages.get((JOBS, text))
        docs, at = window.docs, self._passed.get(text, 0)
        while at < len(docs) and position_of(text, docs[at]) in self._gone:
            at += 1
        self._passed[text] = at
        for doc in islice(docs, at, None):
            position = position_of(text, doc)
            if position not in self._gone and position not in self.hidden:
                return doc
        if window.complete:
            return None
        raise MissingPageError((JOBS, text))

    def first_of(self, name: LineName) -> First | None:
        """The first job of a line; None if it has none."""
        text = line_text(name)
        doc = self.first_doc(text)
        firsts = [] if doc is None else [first_in(doc)]
        return min([*firsts, *self.stay.get(text, ())], default=None)

    def take(self, text: str, sequence: int) -> None:
        """A job stands in the line no more."""
        self._gone.add((text, sequence))

    # -- lines -----------------------------------------------------------------------------------

    def line(self, name: LineName) -> Line | None:
        """The line, if it has jobs."""
        return line_from(self.draft.page(line_key(name)))

    def lift(self, line: Line) -> None:
        """Take the line out of its stage."""
        line.stage, line.at = "lifted", None
        page = self.draft.page(line_key(line.name))
        if page is not None:
            self._put({**page, "stage": "lifted", "waits_for": None})

    def put(self, line: Line) -> None:
        """Keep the line as it is now."""
        page = page_of(line)
        if self.draft.page(page["_id"]) is None:
            facts = self._facts(line.lane)
            facts.lines += 1
            facts.keyed += line.name.key != NO_KEY
        self._put(page)

    def _put(self, page: Doc) -> None:
        """Write the page of a line, and count it."""
        self._count(self.draft.page(page["_id"]), -1)
        self._count(page, 1)
        self.draft.put(page)

    def _count(self, page: Doc | None, number: int) -> None:
        """There are so many more lines in the stage of this one."""
        stage = None if page is None else page["stage"]
        self.root.later += number * (stage == LATER)
        self.root.waiting += number * (stage == WAITING)

    def drop(self, line: Line) -> None:
        """Forget a line that has no jobs any more; the last one with a key ends the turns."""
        self._count(self.draft.page(line_key(line.name)), -1)
        self.draft.drop(line_key(line.name))
        facts = self._facts(line.lane)
        facts.lines -= 1
        if line.name.key != NO_KEY:
            facts.keyed -= 1
            if not facts.keyed:
                self._end_turns(line.lane, facts)
        if not facts.lines:
            del self.root.lanes[lane_name(line.lane)]

    def _end_turns(self, lane: Lane, facts: LaneFacts) -> None:
        """Forget all keys; jobs without one begin anew."""
        name, over = lane_name(lane), facts.round
        key = self.key(lane, NO_KEY)
        for kind in (KEYS, IDLE):
            for page in self.draft.stand_in((kind, name, over)):
                self.draft.drop(page["_id"])
        if over <= self.before.rounds:
            self.ended.append((name, over))
        self.root.rounds += 1
        facts.round, facts.present = self.root.rounds, 0
        if key.ready is not None:
            key.turn = 0
            self.put_key(key)

    def first_later(self, lane: Lane) -> Line | None:
        """Of the lines whose first job is not due, the one that is due first."""
        if not self.root.later:
            return None
        return line_from(self.draft.first((LATER, lane_name(lane))))

    def first_ready(self, lane: Lane, key: str) -> Line | None:
        """Of the ready lines of the key the first by (due, sequence)."""
        return line_from(self.draft.first((READY, lane_name(lane), key)))

    def first_waiting(self, limit: str, lane: Lane) -> Line | None:
        """Of the lines of the lane that wait at the limit, the first in order."""
        if not self.root.waiting:
            return None
        return line_from(self.draft.first((WAITING, limit, lane_name(lane))))

    # -- limits ----------------------------------------------------------------------------------

    def lanes_at(self, limit: str) -> Iterable[Lane]:
        """The lanes of which a line waits at the limit."""
        if not self.root.waiting:
            return []
        lanes = set(self.draft.pages.get((LANES_AT, limit)))
        lanes |= {need[2] for need in self.draft.kinds(WAITING) if need[1] == limit}
        return [lane_from(each) for each in lanes]

    def waited_for(self) -> list[str]:
        """The limits at which lines wait."""
        return sorted(self.draft.pages.get((WAITED_FOR,)))

    def alarm(self, limit: str, lane: Lane, at: float | None) -> None:
        """Look at the limit for this lane again at that time; None: not by itself."""
        if at is None and not self.root.alarms:
            return
        key = alarm_key(limit, lane)
        before = self.draft.page(key)
        self.root.alarms += (at is not None) - (before is not None)
        if at is not None:
            self.draft.put({"_id": key, "alarm_lane": lane_name(lane), "limit": limit, "at": at})
        elif before is not None:
            self.draft.drop(key)

    def next_alarm(self, lane: Lane) -> tuple[float, str] | None:
        """The lane's next alarm: when, and at which limit."""
        if not self.root.alarms:
            return None
        page = self.draft.first((ALARMS, lane_name(lane)))
        return None if page is None else (page["at"], page["limit"])

    def store(self, name: str, limit: StoredLimit) -> None:
        """Keep a limit, count what is used of it anew, and look at who waits for what it covers."""
        used = [each for each in self.draft.pages.get((STATES,)) if covering(each, [name])]
        before = {each: self.limit_of(each) for each in used}
        limits = {each: stored for each, stored in self.stored.limits.items() if each != name}
        self.draft.page(stored_key(name))
        if limit.in_force is None:
            self.draft.drop(stored_key(name))
        else:
            limits[name] = limit
            declared, by_operator = text_from(limit.declared), text_from(limit.set)
            page = {"limit_name": name, "declared": declared, "set": by_operator}
            self.draft.put({"_id": stored_key(name), **page})
        self.root.limits += 1
        self.stored = StoredLimits(self.root.limits, limits)
        for each, was in before.items():
            now = self.limit_of(each)
            if is_recounted(was, now) and recount(was, now, self.state(each), self.at):
                self.keep_state(each)
        for waited_for in self.waited_for():
            if covering(waited_for, [name]) is not None:
                opened(self, waited_for)

    def end(self, limits: str | None, holder: str, refund_from: int | None = None) -> None:
        """A lease holds its permits no more; refund what was charged when it began then."""
        for name, cost in costs_of(limits):
            state, holders = self._state(name)
            if holder in holders:
                holders.remove(holder)
                if refund_from is not None:
                    refund(self.limit_of(name), state, cost, refund_from, self.at)
                self.keep_state(name)
            opened(self, name)

    def free(self, name: str, dead: Iterable[str]) -> None:
        """Leases that nobody has hold their permits no more."""
        _, holders = self._state(name)
        holders[:] = [each for each in holders if each not in set(dead)]
        self.keep_state(name)
        opened(self, name)

    # -- turns -----------------------------------------------------------------------------------

    def is_fair(self, lane: Lane) -> bool:
        """Whether a line of the lane has a fairness key."""
        facts = self.root.lanes.get(lane_name(lane))
        return facts is not None and facts.keyed > 0

    def present_turn(self, lane: Lane) -> int:
        """The highest turn in which a job has started, since the lane became fair."""
        facts = self.root.lanes.get(lane_name(lane))
        return 0 if facts is None else facts.present

    def key(self, lane: Lane, name: str) -> Key:
        """The fairness key; one that the lane does not know has turn 0."""
        key = Key(lane, name)
        page = self._key_page(lane, name)
        if page is not None:
            key.turn = page["turn"]
            key.ready = (seconds(page["due"]), page["sequence"]) if page["ready"] else None
        return key

    def _key_page(self, lane: Lane, name: str) -> Doc | None:
        facts = self.root.lanes.get(lane_name(lane))
        if facts is None:
            return None
        key = turn_key(facts.round, lane_name(lane), name)
        if facts.round > self.before.rounds and key not in self.draft.written:
            return None
        return self.draft.page(key)

    def put_key(self, key: Key) -> None:
        """Keep the key as it is now, or forget it if its turn is past and it has no work."""
        lane = lane_name(key.lane)
        if key.ready is None and key.turn <= self.present_turn(key.lane):
            if self._key_page(key.lane, key.name) is not None:
                self.draft.drop(turn_key(self._facts(key.lane).round, lane, key.name))
            return
        facts = self._facts(key.lane)
        due, sequence = key.ready or (0.0, 0)
        self._key_page(key.lane, key.name)
        self.draft.put(
            {
                "_id": turn_key(facts.round, lane, key.name),
                "turns": lane,
                "round": facts.round,
                "key": key.name,
                "turn": key.turn,
                "ready": key.ready is not None,
                "due": micros(due),
                "sequence": sequence,
            }
        )

    def first_key(self, lane: Lane) -> Key | None:
        """Of the keys with a ready line the one with the lowest (turn, due, sequence)."""
        page = self._first_turn(KEYS, lane)
        return None if page is None else self.key(lane, page["key"])

    def _first_turn(self, kind: str, lane: Lane) -> Doc | None:
        facts = self.root.lanes.get(lane_name(lane))
        if facts is None:
            return None
        new = facts.round > self.before.rounds
        return self.draft.first((kind, lane_name(lane), facts.round), new=new)

    def pass_to(self, lane: Lane, turn: int) -> None:
        """The lane's present turn is this one; keys of past turns without work are forgotten."""
        facts = self._facts(lane)
        facts.present = max(facts.present, turn)
        while (page := self._first_turn(IDLE, lane)) is not None and page["turn"] <= facts.present:
            self.draft.drop(page["_id"])

    def wake(self, lane: Lane, due: float) -> None:
        """Wake a sleeper for a job that could start then."""
        self.news.append(News(lane_name(lane), micros(due)))

    def _facts(self, lane: Lane) -> LaneFacts:
        """What the root says of a lane with lines."""
        name = lane_name(lane)
        if name not in self.root.lanes:
            self.root.rounds += 1
            self.root.lanes[name] = LaneFacts(round=self.root.rounds)
        return self.root.lanes[name]


def position_of(text: str, doc: Doc) -> tuple[str, int]:
    """The line in which a job stands, and its sequence there."""
    return text, doc["mulligan"]["sequence"]
