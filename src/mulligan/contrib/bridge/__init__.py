"""Takes over what waits in another queue's Redis, so that an application moves task by task."""

from mulligan.contrib.bridge.message import Left
from mulligan.contrib.bridge.run import Bridged, Progress, run_bridge

__all__ = ["Bridged", "Left", "Progress", "run_bridge"]
