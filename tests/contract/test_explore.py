"""Exploring: new programs, and at a difference the shortest that shows it and how to repeat it."""

import re
import sys

import pytest

from tests.contract import explore
from tests.contract.comparison import Comparison
from tests.contract.programs import LENGTH, Program, parsed, shortest
from tests.databases import plugin


@pytest.fixture
def run(monkeypatch, capsys):
    """Explore with these arguments; the exit code, and what was printed."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["explore", "--stores", "memory", *arguments])
        code = explore.main()
        return code, capsys.readouterr().out

    return run


def plant_bug(monkeypatch):
    def differ(self, **_):
        assert not self.ids[1:], "planted"

    monkeypatch.setattr(Comparison, "prune", differ)


def test_a_run_that_finds_nothing_says_how_much_it_compared(run):
    code, out = run("--commands", "300", "--seed", "5", "--jobs", "2")
    assert code == 0
    assert re.search(
        r"^memory against memory: [\d,]+ commands, [\d,]+ programs$", out, re.MULTILINE
    )


def test_the_first_difference_is_made_short_and_can_be_repeated(run, monkeypatch):
    with monkeypatch.context() as patched:
        plant_bug(patched)
        code, out = run("--seed", "5")
        assert code == 1
        assert "memory differs from memory: planted" in out
        words = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
        assert words == ["enqueue", "prune"]
        program = re.search(r"ARGS='--program (\S+)'", out)
        assert program is not None
        assert run("--program", program[1])[0] == 1
    assert run("--program", program[1])[0] == 0


def test_what_differs_once_and_not_again_is_said_to(run, monkeypatch):
    runs = []

    def differ_once(self, program):
        self.pair.close()
        runs.append(program)
        if len(runs) == 1:
            raise TimeoutError("late")

    monkeypatch.setattr(Comparison, "run", differ_once)
    code, out = run()
    assert (code, len(runs)) == (1, 2)
    assert "differed from memory once, and not again: TimeoutError('late')" in out


def test_ctrl_c_ends_it_with_what_was_counted(run, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(explore, "compare", interrupt)
    code, out = run("--jobs", "2")
    assert code == 0
    assert "memory against memory: " in out


def test_one_seed_draws_the_same_programs(run, monkeypatch):
    plant_bug(monkeypatch)
    assert run("--seed", "6")[1] == run("--seed", "6")[1]


def test_a_program_is_named_by_its_seed_and_the_numbers_of_its_commands():
    assert parsed("7") == Program(7)
    short = parsed(f"7:3,{2 * LENGTH}")
    assert (str(short), short.commands()[0]) == (f"7:3,{2 * LENGTH}", Program(7).commands()[3])


def test_a_store_without_a_server_is_refused_with_the_remedy(run, monkeypatch, capsys):
    monkeypatch.setattr(plugin, "_skipped", {})
    monkeypatch.delenv("MULLIGAN_TEST_REDIS_URL", raising=False)
    with pytest.raises(SystemExit):
        run("--stores", "redis")
    assert "MULLIGAN_TEST_REDIS_URL is not set" in capsys.readouterr().err


@pytest.mark.parametrize("needed", [{0}, {79}, {3, 40, 41, 77}, set(range(80))])
def test_what_is_not_needed_is_left_out(needed):
    assert set(shortest(tuple(range(80)), needed.issubset)) == needed
