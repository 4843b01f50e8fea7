"""Where a child process begins: it finds the app of its worker, and runs attempts of its tasks."""

import socket
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mulligan.app.module_of import module_of
from mulligan.app.mulligan import Mulligan
from mulligan.app.resources import entered
from mulligan.core.errors import InvalidError
from mulligan.core.settings import AN_APP
from mulligan.engine.child_messages import AppPath, Setup

if TYPE_CHECKING:
    from mulligan.engine.fork_server import Serve

# The name that multiprocessing gives it too: a script does not run what it guards by __main__.
SCRIPT = "__mp_main__"


def main(control: int) -> None:
    """Run the fork server on this end of a socket."""
    from mulligan.engine.fork_server import run  # noqa: PLC0415 - no other process needs it

    with socket.socket(fileno=control) as connection:
        run(connection, load)


def load(setup: Setup) -> "Serve":
    """Import the app, and return what a child does with it."""
    from mulligan.engine.child import Child  # noqa: PLC0415 - no other process needs it

    app = find(setup.app)
    app.settings = setup.settings

    def serve(connection: socket.socket) -> None:
        if app.url.startswith("memory:"):
            app.access = OnlyInWorker()
        lifespan = None if app.lifespan is None else lambda: entered(app)
        Child(
            connection,
            app.tasks,
            app.settings,
            lifespan=lifespan,
            log_level=setup.log_level,
            tracing=app.tracing,
            limits=app.declared_limits,
        ).serve()

    return serve


def find(path: AppPath) -> Mulligan:
    """Import the module or script, and return its app."""
    module = run_script(path.file) if path.file else import_module(path.module)
    found: Any = module
    for part in path.attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Mulligan):
        raise InvalidError(f"{path.attribute!r} in {path.file or path.module} is no Mulligan there")
    found.called = f"{path.module}:{path.attribute}"
    return found


def run_script(file: str) -> ModuleType:
    """The script as a module; what it guards by `if __name__ == "__main__"` does not run."""
    spec = spec_from_file_location(SCRIPT, file)
    if spec is None or spec.loader is None:
        raise InvalidError(f"script {file} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[SCRIPT] = sys.modules["__main__"] = module
    spec.loader.exec_module(module)
    return module


def path_of(app: Mulligan) -> AppPath:
    """How a child finds the app; refuses one that is in no module."""
    if app.called != AN_APP:
        named, _, attribute = app.called.rpartition(":")
        return AppPath(named, attribute)
    if (found := module_of(app)) is not None:
        return path_in(*found)
    pooled = ", ".join(task.name for task in app.tasks.values() if task.runs.pool is not None)
    raise InvalidError(
        f'tasks {pooled} have pool="process", and child processes cannot import an app that is no'
        " attribute of a module; assign it to a name at the top of its module"
    )


def path_in(name: str, attribute: str, module: ModuleType) -> AppPath:
    """The path of an attribute in the module, by its file if it is the script that was run."""
    spec = getattr(module, "__spec__", None)
    if name != "__main__":
        return AppPath(name, attribute)
    if spec is not None:
        return AppPath(spec.name, attribute)
    return AppPath(name, attribute, getattr(module, "__file__", None) or "")


class OnlyInWorker:
    """Stands for the store in the children of a worker on memory://, which they do not see."""

    joins_transactions = False
    blocks_loops = True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise InvalidError(
            "memory:// is seen by the worker alone, and not by its child processes; use"
            ' sqlite:///FILE to enqueue in a task that has pool="process"'
        )
