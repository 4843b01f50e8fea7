"""Help and docs: every command and every option is described, in both; starting is quick."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from mulligan.cli import COMMANDS, cli
from tests.cli.command_line import good, run

DOCS = Path(__file__).parents[2] / "docs/reference/cli.md"


def commands():
    """Every command by the words that call it."""
    context = click.Context(cli)
    for name, (module, _, _) in COMMANDS.items():
        if find_spec(f"mulligan.cli.{module}") is None:
            continue
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for part, inner in command.commands.items():
                yield f"{name} {part}", inner


ALL = dict(commands())


@pytest.mark.parametrize("name", ALL)
def test_every_option_is_described(name):
    command = ALL[name]
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.name}"
    assert "Usage: mulligan" in good(*name.split(), "--help")


@pytest.mark.parametrize("name", ALL)
def test_every_command_and_option_is_in_the_docs(name):
    docs = DOCS.read_text()
    assert f"## mulligan {name.split()[0]}\n" in docs
    section = docs.split(f"## mulligan {name.split()[0]}\n")[1].split("\n## ")[0]
    assert f"mulligan {name}" in docs
    shared = docs.split("\n## mulligan ")[0]
    for option in ALL[name].params:
        if isinstance(option, click.Option):
            longest = max(option.opts, key=len)
            assert f"`{longest}" in section or f"`{longest}" in shared, f"{name} {longest}"


def test_the_list_of_commands_says_what_their_own_help_says():
    for name, (_, _, short) in COMMANDS.items():
        if name in ALL and name != "bench":
            first = (ALL[name].help or "").split("\n\n")[0].replace("\n", " ")
            assert first == short or first.startswith(short.rstrip(".")), name
    said = good("--help")
    assert all(name in said for name in COMMANDS)
    assert all(character.isprintable() for line in said.splitlines() for character in line)
    assert "_MULLIGAN_COMPLETE=bash_source" in said


@pytest.mark.parametrize("group", [[], ["dead"]])
def test_a_group_without_a_command_shows_its_help(group):
    result = run(*group)
    assert result.exit_code == 2
    assert result.stderr == good(*group, "--help")


def test_help_imports_no_command():
    code = (
        "import sys; from mulligan.cli import cli; cli.main(['--help'], standalone_mode=False);"
        "print([m for m in sys.modules if m.startswith(('mulligan.cli.', 'rich'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "['mulligan.cli.group']"


def test_a_worker_loads_no_hashes_that_its_store_has_no_use_for():
    code = (
        "import sys; before = set(sys.modules);"  # what measures coverage may load them too
        "import mulligan.cli.worker, mulligan.app.worker, mulligan.stores.memory;"
        "hashes = {'_hashlib', 'hashlib', 'hmac', 'secrets'};"
        "print(sorted((set(sys.modules) - before) & hashes))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_module_runs_as_the_command_does():
    out = subprocess.run(
        [sys.executable, "-m", "mulligan", "--version"], capture_output=True, text=True, check=True
    )
    assert out.stdout.startswith("mulligan ")
