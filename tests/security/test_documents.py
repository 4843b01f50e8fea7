"""What the pages on security name exists."""

import re
from pathlib import Path

from mulligan.app.app_store import KEYS_VARIABLE
from mulligan.core.settings import Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/proof/security.md").read_text()
POLICY = (ROOT / "SECURITY.md").read_text()


def named() -> list[tuple[str, str]]:
    return re.findall(r"^\| .+ \| `(tests/\S+\.py)::(test_\w+)` \|$", PAGE, re.MULTILINE)


def test_every_line_of_the_checklist_names_a_test_that_exists():
    section = PAGE.partition("## The server's checklist")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(named()) > 30
    for path, test in named():
        source = (ROOT / path).read_text()
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), f"{path}::{test}"


def test_every_test_of_the_servers_guard_is_in_the_checklist_or_part_of_a_line():
    listed = {test for _, test in named()}
    held = ROOT / "tests/security/test_server_limits.py"
    for test in re.findall(r"^(?:async )?def (test_\w+)\(", held.read_text(), re.MULTILINE):
        assert test in listed, test


def test_links_of_the_policy_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", POLICY):
        assert (ROOT / target).exists(), target


def test_limits_and_variables_are_called_as_they_are():
    assert f"`{KEYS_VARIABLE}=" in PAGE
    for name in ("payload_limit", "result_limit", "unknown_task_delay"):
        assert name in Settings.__struct_fields__
        assert f"`{name}`" in PAGE
