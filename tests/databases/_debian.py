from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.databases._server import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY = Path("/usr/sbin/policy-rc.d")
LOCK = Path(tempfile.gettempdir()) / "mulligan-apt.lock"


def root_on_debian() -> bool:
    """Whether packages can be installed here without asking anyone."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(package: str) -> None:
    """Install one of Debian's packages without starting its service.

    Raises Unavailable where that is not possible, naming the package.
    """
    if not root_on_debian():
        raise Unavailable(f"install {package} (installed automatically only as root on Debian)")
    print(f"installing {package} from Debian's packages", file=sys.stderr, flush=True)
    with locked(LOCK), _no_services():
        _apt("update")
        _apt("install", "--no-install-recommends", package)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, waiting for other processes that do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _apt(*arguments: str) -> None:
    command = ["apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=300", *arguments]
    done = subprocess.run(
        command,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        ending = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise Unavailable(f"{' '.join(command)} failed: {ending}")


@contextmanager
def _no_services() -> Iterator[None]:
    # Debian's packages start their services unless this file says no; a machine's own is left as is
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
