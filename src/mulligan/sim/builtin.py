"""The built-in scenarios, and loading a scenario by name or file."""

import tomllib
from importlib.resources import files
from pathlib import Path

from mulligan.core.errors import InvalidError
from mulligan.sim.scenario import Scenario
from mulligan.sim.scenario_file import read_scenario
from mulligan.sim.trace import SUFFIX as TRACE_SUFFIX
from mulligan.sim.trace import read_trace

SUFFIX = ".toml"
FOLDER = files("mulligan.sim") / "scenarios"


def builtin_names() -> list[str]:
    """The names of the built-in scenarios."""
    found = (each.name for each in FOLDER.iterdir())
    return sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX))


def builtin_titles() -> dict[str, str]:
    """What each built-in scenario is about."""
    return {
        name: tomllib.loads((FOLDER / f"{name}{SUFFIX}").read_text(encoding="utf-8"))["title"]
        for name in builtin_names()
    }


def load_scenario(named: str) -> Scenario:
    """The built-in scenario of that name, or the scenario or trace in that file."""
    if named in builtin_names():
        return read_scenario(named, (FOLDER / f"{named}{SUFFIX}").read_text(encoding="utf-8"))
    path = Path(named)
    if path.suffix == TRACE_SUFFIX:
        return read_trace(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InvalidError(f"{named}:{line}: this is not TOML: it is not UTF-8") from error
    except OSError as error:
        if path.suffix == SUFFIX or path.exists():
            raise InvalidError(f"scenario {named!r} cannot be read: {error.strerror}") from error
        raise InvalidError(
            f"scenario {named!r} is neither a file nor one of {', '.join(builtin_names())}"
        ) from error
    return read_scenario(named, text)
