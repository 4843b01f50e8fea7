"""Commands on pages print what the pages say that they print."""

import pytest

from tests.tutorial import ran
from tests.tutorial.reader import Reader
from tests.tutorial.transcript import compared, renewed, shown


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", ran.pages(), ids=lambda page: page.name)
async def test_a_page_shows_what_its_commands_print(page, tmp_path):
    shown = compared(page.read_text())
    assert compared(await ran.renew(page, tmp_path)) == shown, "run make transcripts"


def test_there_are_such_pages():
    assert "debug-a-stuck-job.md" in [page.name for page in ran.pages()]


PAGE = """\
```python
print("ready")
```
- Type it:

  ```console
  $ python shop.py
  $ python shop.py |\\
    cat
  it was not ready
  ```
<!-- typed: echo here > file -->
```console
$ cat file; hostname -x 2>/dev/null; echo there; echo end
there
```
"""


def test_a_page_gets_what_its_commands_print_where_they_stand(tmp_path):
    with Reader(tmp_path) as someone:
        text = renewed(PAGE, someone.does)
    shows = PAGE.replace("  it was not ready", "  ready")
    shows = shows.replace("  $ python shop.py\n", "  $ python shop.py\n  ready\n", 1)
    assert text == shows.replace("\nthere\n", "\n…\nthere\n…\n")


def test_a_program_that_stays_is_stopped_before_the_next_of_its_kind(tmp_path):
    tmp_path.joinpath("shop.py").write_text(
        "from mulligan import Mulligan\napp = Mulligan('memory://')\n"
    )
    with Reader(tmp_path) as someone:
        assert "ready for jobs" in someone.types("mulligan worker shop:app")
        first = someone.running["worker"]
        someone.types("mulligan worker shop:app", ("ready for jobs",))
        assert first.poll() == 0
    assert someone.running == {}


def test_what_a_page_leaves_out_is_marked():
    printed = "one\ntwo\n\nthree in 3 s\nfour\n"
    assert shown(("two", "three in 7 s"), printed) == ["…", "two", "three in 3 s", "…"]
    assert shown((), printed) == ["one", "two", "three in 3 s", "four"]


def test_a_page_that_shows_what_was_not_printed_gets_all_of_it():
    assert shown(("five",), "one\ntwo\n") == ["one", "two"]


def test_what_is_left_out_and_what_differs_between_runs_is_not_compared():
    job = "09:00:00.100 info job mwn0kzwnoxdbmm9l000000 in 3 s by web-1-12-ab12cd"
    other = "10:10:10.111 info job mwn0kzwxoxdbmm9l0000zz in 4 s by vm-a-4711-0012cd"
    assert compared(f"{job}\n…\n") == compared(other)
    assert compared("2 jobs done") != compared("3 jobs done")


def test_a_rate_may_happen_to_be_whole():
    rate = " send_receipt  default      23.6          2       4   0.6 ms  2.1 ms"
    whole = " send_receipt  default        24          2       4   600 ms  2.1 s"
    assert compared(rate) == compared(whole)
    assert compared(rate) != compared(whole.replace("  4  ", "  5  "))
