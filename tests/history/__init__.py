"""Histories: what was asked of a store and what it answered, and whether that can be true."""

from tests.history.check import INVARIANTS, check
from tests.history.events import AnyEvent, Attempt, Fault, Stock
from tests.history.invariant import Invariant, Violation
from tests.history.journal import Clerk, InFile, InMemory, Journal, load
from tests.history.order import in_order
from tests.history.recorder import Recorder, recorded, take_stock
from tests.history.report import line, report

__all__ = [
    "INVARIANTS",
    "AnyEvent",
    "Attempt",
    "Clerk",
    "Fault",
    "InFile",
    "InMemory",
    "Invariant",
    "Journal",
    "Recorder",
    "Stock",
    "Violation",
    "check",
    "in_order",
    "line",
    "load",
    "recorded",
    "report",
    "take_stock",
]
