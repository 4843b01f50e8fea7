"""What to start for an app is said by the name that commands find it by."""

import subprocess
import sys

import pytest

from mulligan import Mulligan
from mulligan.app.module_of import module_of, name_of

app = Mulligan("memory://")

SHOP = """
from mulligan import Mulligan

shop = Mulligan("sqlite:///jobs.db")

@shop.task
def buy() -> None: ...

if __name__ == "__main__":
    print(buy.enqueue().explain())
"""


def test_an_app_is_named_by_its_module_and_attribute():
    assert name_of(app) == f"{__name__}:app"


def test_one_that_a_command_has_found_keeps_the_name_of_the_command():
    other = Mulligan("memory://")
    other.called = "shop:app"
    assert name_of(other) == "shop:app"


def test_one_that_is_in_no_module_has_no_name():
    other = Mulligan("memory://")
    assert module_of(other) is None
    assert name_of(other) == "APP"


@pytest.mark.parametrize("command", [["shop.py"], ["-m", "shop"], ["-c", "{}"]])
def test_a_script_that_nobody_works_for_says_which_command_does(tmp_path, command):
    (tmp_path / "shop.py").write_text(SHOP)
    said = subprocess.run(
        [sys.executable, *(word.format(SHOP) for word in command)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    name = "APP" if command[0] == "-c" else "shop:shop"
    assert f"start one with: mulligan worker {name} --queue default" in said
