"""`python -m tests.dist`: build the wheel and the sdist, and use each as somebody else would.

Both are installed into environments that hold nothing else, where `mulligan demo` runs and the
README's first program is tried: a worker in one process, the program in another. The sdist is
unpacked as well, and its own tests run from it. Exit code 1 with the output of what failed.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DIST = PROJECT / "dist"
ANSWER = "{'category': 'greeting', 'question': 'Hello?'}"
TESTS = "test-fast", "ARGS=-q tests/core tests/app"


def main() -> None:
    """Build, install, run; say what was done."""
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "hatchling", "build"], PROJECT)
    wheel, sdist = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    for built in (wheel, sdist):
        with tempfile.TemporaryDirectory(prefix="mulligan-dist-") as folder:
            say(f"{built.name}: {built.stat().st_size / 1024:.0f} KiB")
            use(built, Path(folder))
    with tempfile.TemporaryDirectory(prefix="mulligan-dist-") as folder:
        test(sdist, Path(folder))
    say(f"{wheel.name} and {sdist.name} install and work")


def use(built: Path, folder: Path) -> None:
    """Install into an empty environment, and do what a new user does."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv/bin"
    pip: list[str | Path] = [programs / "python", "-m", "pip", "--disable-pip-version-check", "-qq"]
    run([*pip, "install", built], folder)
    run([*pip, "check"], folder)
    run([programs / "mulligan", "demo"], folder)
    say("  demo: ran")
    (folder / "myapp.py").write_text(first_program())
    worker = subprocess.Popen([programs / "mulligan", "worker", "myapp:app"], cwd=folder)
    try:
        told = run([programs / "python", "myapp.py"], folder)
    finally:
        worker.terminate()
        worker.wait()
    if ANSWER not in told:
        sys.exit(f"the README's program said {told!r}, not {ANSWER}")
    say("  the README's program: ran")


def test(sdist: Path, folder: Path) -> None:
    """Run some of its tests from what the sdist holds, by its own Makefile."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    run(["make", *TESTS], next(folder.iterdir()))
    say(f"{sdist.name}: make {TESTS[0]} passed in it")


def first_program() -> str:
    """The first example of the README."""
    found = re.search(r"```python\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)
    if found is None:
        sys.exit("README.md has no example in ```python")
    return found[1]


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command; its output, or an end to all of it."""
    inherited = {name: of for name, of in os.environ.items() if not name.startswith("MULLIGAN_")}
    done = subprocess.run(
        command, cwd=folder, env=inherited, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = "\n".join([done.stdout, done.stderr])
        sys.exit(f"{said}\n{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def say(words: str) -> None:
    """Tell how far it is."""
    print(words, flush=True)


if __name__ == "__main__":
    main()
