"""Testing an app: its real engine on a virtual clock, its store in memory."""

from mulligan.testing.enqueued import (
    aassert_enqueued,
    aassert_not_enqueued,
    assert_enqueued,
    assert_not_enqueued,
)
from mulligan.testing.harness import InjectedError, Testing
from mulligan.testing.real import StoreTesting
from mulligan.testing.virtual import StuckError, VirtualLoop

__all__ = [
    "InjectedError",
    "StoreTesting",
    "StuckError",
    "Testing",
    "VirtualLoop",
    "aassert_enqueued",
    "aassert_not_enqueued",
    "assert_enqueued",
    "assert_not_enqueued",
]
