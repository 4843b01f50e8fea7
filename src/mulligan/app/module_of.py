"""Where an app is: the module and the name that commands and child processes find it by."""

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.settings import AN_APP

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan


class Place(NamedTuple):
    """An attribute of a module; `name` is the module's."""

    name: str
    attribute: str
    module: ModuleType


def module_of(app: "Mulligan") -> Place | None:
    """The first module that has the app as an attribute; None if none does."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app and not name.startswith("mulligan."):
                return Place(name, attribute, module)
    return None


def name_of(app: "Mulligan") -> str:
    """The app as `mulligan worker` takes it: module:attribute, or APP if it is in no module.

    The module of a script that was run is named as its file is.
    """
    found = None if app.called != AN_APP else module_of(app)
    if found is None:
        return app.called
    if found.name != "__main__":
        return f"{found.name}:{found.attribute}"
    spec, file = getattr(found.module, "__spec__", None), getattr(found.module, "__file__", None)
    if spec is not None:
        return f"{spec.name}:{found.attribute}"
    return app.called if file is None else f"{Path(file).stem}:{found.attribute}"
