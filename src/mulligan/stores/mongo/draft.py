"""A draft: pages as they will be, those that were written over those that were read.

What the root keeps of pages was written before, and lies over what was read from the start on.
"""

from heapq import heappop, heappush
from typing import Any

from mulligan.stores.mongo.document import Doc
from mulligan.stores.mongo.needs import PAGE_OF, MissingPageError, Need, Window, need_of, order_of
from mulligan.stores.mongo.pages import Pages
from mulligan.stores.mongo.root import Kept


class Draft:
    """Pages as they will be: those that were written over those that were read."""

    def __init__(self, pages: Pages, kept: Kept) -> None:
        self.pages = pages
        self.kept = kept
        self.written: dict[str, Doc | None] = dict.fromkeys(kept.gone)
        self._heaps: dict[Need, list[tuple[tuple[Any, ...], str]]] = {}
        self._stands: dict[str, tuple[Need, tuple[Any, ...]]] = {}
        self._passed: dict[Need, int] = {}
        for doc in kept.put.values():
            self.put(doc)

    def page(self, key: str) -> Doc | None:
        """A page, if there is one."""
        if key in self.written:
            return self.written[key]
        found: Doc | None = self.pages.get((PAGE_OF, key))
        return found

    def put(self, doc: Doc) -> None:
        """Write a page."""
        key = doc["_id"]
        self.written[key] = doc
        self._stands.pop(key, None)
        need = need_of(doc)
        if need is not None:
            order = order_of(need, doc)
            self._stands[key] = need, order
            heappush(self._heaps.setdefault(need, []), (order, key))

    def drop(self, key: str) -> None:
        """Remove a page."""
        self.written[key] = None
        self._stands.pop(key, None)

    def first(self, need: Need, *, new: bool = False) -> Doc | None:
        """The first page of a kind; a `new` one has none but those that were written."""
        heap = self._heaps.get(need, [])
        while heap and self._stands.get(heap[0][1]) != (need, heap[0][0]):
            heappop(heap)
        mine = self.written[heap[0][1]] if heap else None
        theirs = None if new else self._first_read(need)
        if mine is None or theirs is None:
            return mine if theirs is None else theirs
        return mine if order_of(need, mine) < order_of(need, theirs) else theirs

    def _first_read(self, need: Need) -> Doc | None:
        window: Window = self.pages.get(need)
        at = self._passed.get(need, 0)
        while at < len(window.docs) and window.docs[at]["_id"] in self.written:
            at += 1
        self._passed[need] = at
        if at < len(window.docs):
            return window.docs[at]
        if window.complete:
            return None
        raise MissingPageError(need)

    def kinds(self, kind: str) -> list[Need]:
        """Of what things of this kind pages were written, though they may stand elsewhere now."""
        return [need for need in self._heaps if need[0] == kind]

    def stand_in(self, need: Need) -> list[Doc]:
        """What was written of a kind."""
        docs = [self.written[key] for key, (of, _) in self._stands.items() if of == need]
        return [doc for doc in docs if doc is not None]

    def changed(self) -> tuple[Kept, bool]:
        """The pages that lie over the stored ones, and whether any is not as it was before."""
        after, differs = Kept({}, set(), set()), False
        for key, doc in self.written.items():
            stored = self.pages.found.get((PAGE_OF, key))
            kept = key in self.kept
            before = self.kept.put.get(key) if kept else stored
            differs = differs or not is_same(before, doc)
            is_new = key in self.kept.new if kept else stored is None
            if doc is None:
                after.gone.update(() if is_new else (key,))
            elif kept or not is_same(stored, doc):
                after.put[key] = doc
                after.new.update((key,) if is_new else ())
        return after, differs


def is_same(before: Doc | None, doc: Doc | None) -> bool:
    """Whether the page says the same, whichever change wrote it."""
    if before is None or doc is None:
        return before is doc
    return before is doc or {**before, "serial": 0} == {**doc, "serial": 0}
