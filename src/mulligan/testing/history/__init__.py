"""Histories: what was asked of a store and what it answered, and whether that can be true."""

from mulligan.testing.history.check import INVARIANTS, check
from mulligan.testing.history.events import AnyEvent, Attempt, Fault, Stock
from mulligan.testing.history.invariant import Invariant, Violation
from mulligan.testing.history.journal import Clerk, InFile, InMemory, Journal, load
from mulligan.testing.history.order import in_order
from mulligan.testing.history.recorder import Recorder, recorded, take_stock
from mulligan.testing.history.report import line, report

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
