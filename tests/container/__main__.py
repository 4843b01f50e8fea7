"""Builds what a Dockerfile says in a Debian made by debootstrap, and runs it: no Docker is needed.

    python -m tests.container [--entrypoint PROGRAM] [--bind FROM:TO] FOLDER [ARGUMENT ...]

FOLDER has the Dockerfile and what it copies. Stands for the base image: the Debian of `make fresh`
(tests/fresh/run), whose Python is found as python3. The steps that Docker runs as root run as root
in a layer above it; the entry point runs as process 1 of its own process namespace. Says on stderr
what is done, on stdout `pid N` of process 1, and what that prints. Ends with its code. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mulligan/fresh"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KNOWN = {"FROM", "COPY", "RUN", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD"}


class Step(NamedTuple):
    """An instruction of a Dockerfile."""

    word: str
    rest: str


def steps_of(text: str) -> list[Step]:
    """The instructions; one that is not known here is refused."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = [Step(*line.split(maxsplit=1)) for line in joined.splitlines()]
    unknown = {step.word for step in found} - KNOWN
    if unknown:
        sys.exit(f"instructions that tests/container does not know: {', '.join(sorted(unknown))}")
    return found


class Stage:
    """A file system in a layer of its own above the base, and how it is run."""

    def __init__(self, base: Path, layer: Path, binds: list[str]) -> None:
        self.written, self.root = layer / "written", layer / "root"
        for made in (self.written, layer / "work", self.root):
            made.mkdir(parents=True)
        options = f"lowerdir={base},upperdir={self.written},workdir={layer / 'work'}"
        mount("-t", "overlay", "-o", options, "overlay", str(self.root))
        mount("-t", "proc", "proc", str(self.root / "proc"))
        mount("--rbind", "/dev", str(self.root / "dev"))
        for each in binds:
            source, _, target = each.partition(":")
            inside = self.root / target.lstrip("/")
            inside.mkdir(parents=True, exist_ok=True)
            mount("--bind", source, str(inside))
        self.folder, self.user = "/", "0"
        self.variables: dict[str, str] = {"PATH": PATH}
        self.entrypoint: list[str] = []
        self.arguments: list[str] = []

    def run(self, command: str) -> None:
        """Run a step, as Docker's RUN does."""
        more = {"HOME": "/root", "PIP_CERT": CERTIFICATES, "DEBIAN_FRONTEND": "noninteractive"}
        for name in ("PIP_FIND_LINKS",):
            if name in os.environ:
                more[name] = os.environ[name]
        words = ["chroot", str(self.root), "env", "-i", *pairs(more | self.variables)]
        subprocess.run([*words, "sh", "-ec", f"cd {self.folder}; {command}"], check=True,
                       stdout=sys.stderr, stdin=subprocess.DEVNULL)  # fmt: skip

    def copy(self, sources: list[Path], target: str) -> None:
        """Copy files, or what is in folders."""
        inside = self.root / (Path(self.folder) / target).as_posix().lstrip("/")
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, inside, symlinks=True, dirs_exist_ok=True)
            else:
                named = inside / source.name if target.endswith("/") else inside
                named.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, named)

    def start(self, entrypoint: list[str], arguments: list[str]) -> subprocess.Popen[bytes]:
        """Run the entry point as process 1, as the image's user, with an environment of its own."""
        root = shlex.quote(str(self.root))
        words = shlex.join([*pairs(self.variables | {"HOME": "/"}), *entrypoint, *arguments])
        inside = f"cd {self.folder}; exec env -i {words}"
        chroot = f"chroot --userspec={self.user}:{self.user} {root} sh -c {shlex.quote(inside)}"
        begin = f"umount -l {root}/proc; mount -t proc proc {root}/proc; exec {chroot}"
        return subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "sh", "-ec", begin],
            stdin=subprocess.DEVNULL,
        )


def pairs(variables: dict[str, str]) -> list[str]:
    """The variables as arguments of `env`."""
    return [f"{name}={value}" for name, value in variables.items()]


def mount(*arguments: str) -> None:
    """Mount something, in our own mount namespace."""
    subprocess.run(["mount", *arguments], check=True)


def build(folder: Path, layers: Path, binds: list[str]) -> Stage:
    """Carry out the Dockerfile; the last stage."""
    stages: dict[str, Stage] = {}
    current: Stage | None = None
    for step in steps_of((folder / "Dockerfile").read_text()):
        print(f"{step.word} {step.rest[:90]}", file=sys.stderr, flush=True)
        if step.word == "FROM":
            words = step.rest.split()
            name = words[2] if words[1:2] == ["AS"] else f"stage {len(stages)}"
            current = stages[name] = Stage(HOME / "root", layers / str(len(stages)), binds)
        else:
            assert current is not None, "a Dockerfile begins with FROM"
            roots = {name: each.root for name, each in stages.items()}
            carry_out(step, current, {"": folder, **roots})
    assert current is not None, "a Dockerfile has a stage"
    return current


def carry_out(step: Step, stage: Stage, origins: dict[str, Path]) -> None:
    """Change the stage as the step says; files are copied from one of the origins."""
    words = shlex.split(step.rest)
    match step.word:
        case "RUN":
            stage.run(step.rest)
        case "COPY":
            named = words.pop(0).removeprefix("--from=") if words[0].startswith("--") else ""
            stage.copy([origins[named] / each.lstrip("/") for each in words[:-1]], words[-1])
        case "ENV":
            stage.variables |= dict(each.split("=", 1) for each in words)
        case "WORKDIR":
            stage.folder = step.rest
            (stage.root / step.rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        case "USER":
            stage.user = step.rest
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(step.rest)
        case "CMD":
            stage.arguments = json.loads(step.rest)


def size(folder: Path) -> float:
    """Megabytes that files take."""
    files = [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    return sum(each.stat().st_size for each in files) / 1e6


def child_of(pid: int) -> int:
    """The only child of a process, once it is there."""
    while not (found := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        pass
    return int(found[0])


def main() -> int:
    """Build and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entrypoint")
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("folder", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if os.environ.get("MULLIGAN_OWN_MOUNTS") != "yes":
        again = [sys.executable, "-m", "tests.container", *sys.argv[1:]]
        unshared = ["unshare", "--mount", "--propagation", "private", *again]
        os.execvpe("unshare", unshared, {**os.environ, "MULLIGAN_OWN_MOUNTS": "yes"})  # noqa: S606
    if not (HOME / "made").exists():
        clean = {k: v for k, v in os.environ.items() if k != "MULLIGAN_OWN_MOUNTS"}
        subprocess.run(["tests/fresh/run", "true"], check=True, stdout=sys.stderr, env=clean)
    layers = Path(tempfile.mkdtemp(prefix="image-", dir=HOME))
    try:
        image = build(given.folder, layers, given.bind)
        print(f"image: {size(image.written):.1f} MB above the base", file=sys.stderr, flush=True)
        entrypoint = [given.entrypoint] if given.entrypoint else image.entrypoint
        started = image.start(entrypoint, given.arguments or image.arguments)
        first = child_of(started.pid)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
        print(f"pid {first}", flush=True)
        return started.wait()
    finally:
        roots = [str(each) for each in layers.glob("*/root")]
        subprocess.run(["umount", "-R", "-l", *roots], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", "--one-file-system", str(layers)], check=False)


if __name__ == "__main__":
    sys.exit(main())
