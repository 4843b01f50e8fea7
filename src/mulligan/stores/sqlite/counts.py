"""Counts of large tables by group, most of them without going over the rows.

SQLite counts a whole table by its pages, in a tenth of the time that its rows would take. A group
is counted up to a limit; of the groups with more, the first has what the others leave of the whole.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

Group = TypeVar("Group")
# Groups with no more rows are counted at once.
FEW = 5000
EVERY_ROW = -1


def count_groups(
    groups: Iterable[Group], count: Callable[[Group, int], int], whole: Callable[[], int]
) -> dict[Group, int]:
    """The rows of each group, of all there are. `count` counts a group's up to a limit."""
    counts = {group: count(group, FEW + 1) for group in groups}
    large = [group for group, many in counts.items() if many > FEW]
    for group in large[1:]:
        counts[group] = count(group, EVERY_ROW)
    if large:
        counts[large[0]] = whole() - (sum(counts.values()) - counts[large[0]])
    return counts
