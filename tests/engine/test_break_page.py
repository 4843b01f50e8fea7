"""docs/concepts/when-things-break.md quotes logs: each line of them is what a worker writes."""

import ast
import re
from pathlib import Path

import pytest

from mulligan.cli.doctor import skew

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/when-things-break.md").read_text()
QUOTED = re.findall(r"^    (?!mulligan |[! ] )(.+)$", PAGE, re.MULTILINE)
PLACE = re.compile(r"%(?:\.\d)?[sdf]")


def logged() -> list[str]:
    """Every text of the engine that has places to fill and says something itself."""
    trees = [ast.parse(file.read_text()) for file in (ROOT / "src/mulligan/engine").glob("*.py")]
    words = [
        node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)
    ]
    texts = [each for each in words if isinstance(each, str) and PLACE.search(each)]
    return [each for each in texts if len(PLACE.sub("", each)) > len(": ; trying")]


PATTERNS = [".+".join(map(re.escape, PLACE.split(each))) for each in logged()]


@pytest.mark.parametrize("line", QUOTED)
def test_a_quoted_line_is_one_that_a_worker_writes(line):
    assert any(re.fullmatch(pattern, line) for pattern in PATTERNS)


def test_a_line_that_no_worker_writes_would_be_noticed():
    assert len(QUOTED) >= 7
    assert not any(
        re.fullmatch(pattern, "job 7: its lease is gone: oh: no") for pattern in PATTERNS
    )


def test_what_the_doctor_says_of_a_clock_is_quoted():
    found = skew(now=1000.0, before=1180.0, after=1180.0)
    assert f"    ! {found.sentence}\n      {found.remedy}\n" in PAGE
