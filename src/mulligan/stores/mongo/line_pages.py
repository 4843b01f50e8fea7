"""The pages of lines, alarms, fairness keys and limits: their keys, and what they say."""

from mulligan.core.lane import Lane
from mulligan.core.limits import Limit, costs_of, costs_text, encode
from mulligan.core.lines import First, Line, LineName
from mulligan.core.validation import INVALID_RECORD
from mulligan.stores.mongo.document import (
    Doc,
    lane_from,
    lane_name,
    line_in,
    line_text,
    micros,
    seconds,
)
from mulligan.stores.mongo.ledger import Root
from mulligan.stores.mongo.pages import JOBS, LANES_AT, PAGE_OF, READY, WAITING, Need

# So many lanes are looked at for lines that wait before it is known which of them have any.
FEW_LANES = 4


def line_key(name: LineName) -> str:
    """The key of a line's page."""
    return f"line\x1f{line_text(name)}"


def alarm_key(limit: str, lane: Lane) -> str:
    """The key of the page of an alarm."""
    return f"alarm\x1f{lane_name(lane)}\x1f{limit}"


def turn_key(number: int, lane: str, key: str) -> str:
    """The key of the page of a fairness key in a round of a lane."""
    return f"turn\x1f{number}\x1f{lane}\x1f{key}"


def state_key(name: str) -> str:
    """The key of the page that says what is used of a limit."""
    return f"state\x1f{name}"


def stored_key(name: str) -> str:
    """The key of the page of a stored limit."""
    return f"limit\x1f{name}"


def page_of(line: Line) -> Doc:
    """A line as it is kept."""
    return {
        "_id": line_key(line.name),
        "lane": lane_name(line.lane),
        "key": line.name.key,
        "limits": list(line.name.limits),
        "due": micros(line.due),
        "sequence": line.sequence,
        "costs": costs_text(dict(line.costs)),
        "turn": line.turn,
        "stage": line.stage,
        "waits_for": line.at,
    }


def line_from(page: Doc | None) -> Line | None:
    """A line as it was kept."""
    if page is None:
        return None
    line = Line(LineName(lane_from(page["lane"]), page["key"], tuple(page["limits"])))
    line.due, line.sequence = seconds(page["due"]), page["sequence"]
    line.costs = costs_of(page["costs"])
    line.turn, line.stage, line.at = page["turn"], page["stage"], page["waits_for"]
    return line


def text_from(limit: Limit | None) -> str | None:
    """A limit as it is kept."""
    return None if limit is None else encode(limit).decode()


def first_in(doc: Doc) -> First:
    """What a line needs to know of a job that stands in it."""
    private = doc["mulligan"]
    due, costs = seconds(private["due"]), costs_of(private.get("limits"))
    return First(due, private["sequence"], costs)


def needs_of(name: LineName, root: Root) -> list[Need]:
    """What the book most likely needs to know when something happens to a line."""
    lane = lane_name(name.lane)
    needs: list[Need] = [(PAGE_OF, line_key(name)), (READY, lane, name.key)]
    if (facts := root.lanes.get(lane)) is not None:
        needs.append((PAGE_OF, turn_key(facts.round, lane, name.key)))
    for limit in name.limits:
        needs.append((PAGE_OF, state_key(limit)))
        if root.waiting:
            needs.append((WAITING, limit, lane))
        if root.alarms:
            needs.append((PAGE_OF, alarm_key(limit, name.lane)))
    return needs


def needs_of_page(page: Doc, root: Root) -> list[Need]:
    """What it needs to know to take from a line, by its page."""
    line = line_from(page)
    if line is None:
        return []
    return [(JOBS, line_text(line.name)), *needs_of(line.name, root)]


def needs_of_limit(name: str, root: Root) -> list[Need]:
    """What it most likely needs to know when a permit of a limit is freed."""
    needs: list[Need] = [(PAGE_OF, state_key(name))]
    if root.waiting:
        needs.append((LANES_AT, name))
        if len(root.lanes) <= FEW_LANES:
            for lane in root.lanes:
                needs.append((WAITING, name, lane))
                if root.alarms:
                    needs.append((PAGE_OF, alarm_key(name, lane_from(lane))))
    return needs


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
