"""An app whose store is in memory, for commands that are told an app."""

from mulligan import Mulligan

app = Mulligan("memory://")
