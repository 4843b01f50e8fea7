"""Environments of the peers: a venv or a node_modules each, pinned, in a cache folder."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
# mulligan itself: its requirements are installed as a user would, its code is the working tree's
SOURCE = Path(__file__).parent.parent / "src"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mulligan" / "peers"
# those that need a newer Python than mulligan does
NEEDS = {"oban": (3, 12)}


class MissingError(Exception):
    """This peer cannot be had on this machine; the message says why."""


def command_of(peer: str, *, node: bool) -> tuple[list[str], dict[str, str]]:
    """How to start a script of the peer, and with which variables; installs it the first time."""
    if node:
        home = install(peer, PEERS / f"{peer}.json", with_npm)
        found = shutil.which("node") or "node"
        return [found, str(PEERS / f"with_{peer}.cjs")], {"NODE_PATH": str(home / "node_modules")}
    home = install(peer, PEERS / f"{peer}.txt", with_pip)
    paths = [PEERS]
    if peer == "mulligan":
        compile_source(home / "bin" / "python")
        paths.append(SOURCE)
    variables = {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    return [str(home / "bin" / "python"), str(PEERS / "talk.py"), f"with_{peer}"], variables


def install(peer: str, pins: Path, fill: Callable[[str, Path, Path], None]) -> Path:
    """The peer's folder, filled anew whenever its pins have changed, by one process at a time."""
    home = CACHE / peer
    stamp = home / "installed"
    wanted = hashlib.sha256(pins.read_bytes()).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{peer}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            fill(peer, home, pins)
            stamp.write_text(wanted)
    return home


def with_pip(peer: str, home: Path, pins: Path) -> None:
    """A venv with the pinned packages."""
    run(peer, [python_for(peer), "-m", "venv", home])
    python = home / "bin" / "python"
    run(peer, [python, "-m", "pip", "install", "-q", "-r", pins])


@cache
def compile_source(python: Path) -> None:
    """Have bytecode of mulligan at hand, as of everything that pip installs."""
    run("mulligan", [python, "-m", "compileall", "-q", SOURCE])


def with_npm(peer: str, home: Path, pins: Path) -> None:
    """A node_modules with the pinned packages."""
    if shutil.which("npm") is None:
        raise MissingError(f"{peer} needs Node.js and npm; install the packages nodejs and npm")
    shutil.copy(pins, home / "package.json")
    run(peer, ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", home])


def python_for(peer: str) -> str | Path:
    """A Python that is new enough for the peer, from the PATH or of pyenv."""
    needed = NEEDS.get(peer, (3, 11))
    if sys.version_info >= needed:
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(needed[1], needed[1] + 8):
        for found in (shutil.which(f"python3.{minor}"), *versions.glob(f"3.{minor}.*/bin/python")):
            # A shim is on the PATH whether or not it leads anywhere.
            if found and subprocess.run([found, "-V"], capture_output=True, check=False).stdout:
                return found
    raise MissingError(f"{peer} needs Python {needed[0]}.{needed[1]}, and none was found")


def run(peer: str, command: Sequence[str | Path]) -> None:
    """Run a step of an installation; what it prints is kept beside the peer's folder."""
    log = CACHE / f"{peer}.log"
    with log.open("wb") as output:
        done = subprocess.run(command, stdout=output, stderr=output, check=False)
    if done.returncode:
        raise MissingError(f"{peer} could not be installed; see {log}")
