"""A group that imports a command when it is used, and turns errors into messages."""

import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click

from mulligan.core.errors import InvalidError, MulliganError

# What click says of an app where the command takes none as an argument.
EXTRA_APP = re.compile(r"unexpected extra argument \(([\w.]+:\w+)\)")


class RefusalError(click.ClickException):
    """A message for stderr, and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads the instance

    def show(self, file: Any = None) -> None:
        """Print it; a terminal sees the first word in red."""
        click.echo(f"{click.style('error:', fg='red')} {self.message}", file=file, err=True)


@contextmanager
def in_words() -> Iterator[None]:
    """Print an error as a line or two, never as a traceback.

    Exit code 2: the command or a value in it is wrong. 1: not found, or the store failed.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:  # no command is named: print the help
        raise
    except click.UsageError as error:
        raise RefusalError(usage_text(error), 2) from error
    except InvalidError as error:
        raise RefusalError(printable(str(error)), 2) from error
    except MulliganError as error:
        raise RefusalError(printable(str(error)), 1) from error
    except OSError as error:
        if error.errno != errno.ENOSPC:  # click handles a closed pipe, which is no error
            raise
        drop_output()
        raise RefusalError(f"the output could not be written: {error.strerror}", 1) from error


def drop_output() -> None:
    """Write what is still buffered for stdout to nowhere: else Python exits with a code of its own.

    Where stdout is no file, as in tests, nothing is left in a buffer.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage_text(error: click.UsageError) -> str:
    """Click's message, and the command that prints the help."""
    path = error.ctx.command_path if error.ctx is not None else "mulligan"
    text = printable(error.format_message())
    extra = EXTRA_APP.search(text)
    if extra is not None and error.ctx is not None and "app" in error.ctx.params:
        text += f"; an app is given as --app {extra[1]}"
    if isinstance(error, click.NoSuchOption) and of_group(error):
        text = f"{text.rstrip('.')} here; options of a command stand after it: {path} COMMAND "
        text += f"{error.option_name} ..."
    return f"{text}\nSee: {path} --help"


def of_group(error: click.UsageError) -> bool:
    """Whether it is about what stands before the name of a command."""
    return error.ctx is not None and isinstance(error.ctx.command, click.Group)


def printable(text: str) -> str:
    """Text of unknown origin as a terminal may show it: on one line, without control codes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class LazyGroup(click.Group):
    """Commands by name: (module, attribute, short help)."""

    def __init__(
        self,
        *args: Any,
        package: str,
        commands_by_name: Mapping[str, tuple[str, str, str]],
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._package = package
        self._by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names, in the order of the table."""
        return list(self._by_name)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Import the command, None if there is none of that name."""
        if cmd_name not in self._by_name:
            return None
        module, attribute, _ = self._by_name[cmd_name]
        command: click.Command = getattr(import_module(f"{self._package}.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first; one that is nearly right is said."""
        if args[0] in self._by_name:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches  # noqa: PLC0415 - commands start sooner without it

        if near := get_close_matches(args[0], self._by_name, 1):
            ctx.fail(f"no command is named {args[0]!r}; did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in self._by_name.items()])

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Read the options before the command."""
        with in_words():
            return super().make_context(*args, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse arguments that are not valid UTF-8, before they reach a store."""
        for argument in args:
            if not argument.isascii() and argument.encode(errors="replace").decode() != argument:
                raise InvalidError(f"argument {argument!r} is not UTF-8")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with in_words():
            return super().invoke(ctx)
