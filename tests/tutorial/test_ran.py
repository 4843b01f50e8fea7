"""Commands on pages print what the pages say that they print."""

import pytest

from tests.tutorial import ran
from tests.tutorial.transcript import same


@pytest.mark.prove
@pytest.mark.parametrize("page", ran.pages(), ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print(page):
    now = [same(line) for line in ran.renewed(page).splitlines()]
    assert [same(line) for line in page.read_text().splitlines()] == now, "run make transcripts"


def test_there_are_such_pages():
    assert "debug-a-stuck-job.md" in [page.name for page in ran.pages()]


def test_only_commands_of_mulligan_are_run(tmp_path):
    with pytest.raises(ValueError, match="is no command"):
        ran.typed("$ rm x\n", tmp_path)
