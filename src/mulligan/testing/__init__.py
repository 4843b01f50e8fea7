"""Testing an app: its real engine on a virtual clock, its store in memory."""

from mulligan.testing.harness import Testing
from mulligan.testing.virtual import StuckError, VirtualLoop

__all__ = ["StuckError", "Testing", "VirtualLoop"]
