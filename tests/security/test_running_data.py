"""What jobs carry is data on its whole way: Python itself is asked what it runs meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def audited(url: str, *options: str) -> list[str]:
    """What was run as code or made into objects by a client and a worker, in their own process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.audited", url, *options],
        capture_output=True, text=True, timeout=120, check=False, cwd=PROJECT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    noted: list[str] = json.loads(done.stdout)
    return noted


def test_nothing_of_a_job_is_unpickled_or_run_from_client_to_result(store_url):
    assert audited(store_url) == []


def test_it_would_be_noticed():
    seen = audited("memory://", "--naughty")
    assert {"pickle.dumps", "pickle.loads", "marshal.loads", "compile", "exec"} <= set(seen)
