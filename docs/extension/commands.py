"""Every command with its options, as `--help` has them."""

from collections.abc import Iterator

import click

from mulligan.cli import cli


def page() -> str:
    """A section for each command, and one for each command of a group."""
    with click.Context(cli, info_name="mulligan") as context:
        return "\n".join(sections(cli, context))


def sections(group: click.Group, context: click.Context) -> Iterator[str]:
    """The commands of a group, in its own order."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        with click.Context(command, info_name=name, parent=context) as inner:
            help_text = command.get_help(inner)
            yield f"## `{inner.command_path}`\n\n```text\n{help_text}\n```\n"
            if isinstance(command, click.Group):
                yield from sections(command, inner)
