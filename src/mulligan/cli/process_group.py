"""Several commands under one: signals pass on, and what dies or has changed is started again."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import click
from msgspec import Struct

from mulligan.cli.group import RefusalError, printable
from mulligan.cli.health import probes
from mulligan.cli.readiness import Readiness
from mulligan.cli.signs import LOOK_EVERY, signs_of_life, watchdog_seconds
from mulligan.core.errors import InvalidError
from mulligan.engine.loops import cancel_tasks

# A member that dies is started again after so long, twice as long each time in a row.
FIRST_REST, LONGEST_REST = 1.0, 60.0
CHUNK = 1 << 16
# How long running jobs are waited for when the code has changed, unless --drain-timeout says.
RELOAD_DRAIN = 5.0
COLOURS = ("cyan", "magenta", "green", "yellow", "blue")
WRONG = 2  # the exit code of a command that will not work however often it is started
# What the commands of a group must not take from the environment.
OWN_VARIABLES = (
    *("MULLIGAN_PROCESSES", "MULLIGAN_RELOAD", "MULLIGAN_HEALTH_PORT", "MULLIGAN_HEALTH_HOST"),
    *("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"),
)
IN_GROUP = "MULLIGAN_IN_GROUP"


class Member(Struct, frozen=True):
    """One command of the group: a name, and the arguments of `mulligan`."""

    name: str
    arguments: tuple[str, ...]


GROUP = Member("mulligan", ())


def check_reload() -> None:
    """Refuse to watch the code where the package that does so is missing."""
    if find_spec("watchfiles") is None:
        raise InvalidError(
            "--reload needs 'watchfiles', which is not installed; run: pip install"
            " 'mulligan[reload]'"
        )


def run_group(
    members: Sequence[Member],
    *,
    reload: bool,
    prefix: bool,
    listening: socket.socket | None = None,
) -> None:
    """Run the commands until all have ended, and exit with the worst of their codes.

    On the socket, if there is one, the group answers probes.
    """
    group = ProcessGroup(members, prefix=prefix, listening=listening)
    asyncio.run(group.run(reload=reload))
    if group.code == WRONG:
        raise RefusalError(f"{group.wrong} cannot start; see above", WRONG)
    if group.code:
        raise RefusalError("not every process ended in order; jobs may have been cut off", 1)


def given_arguments(context: click.Context, without: Sequence[str] = ()) -> list[str]:
    """The options that were written on the command line, without some; arguments are left out."""
    found: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        written = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not isinstance(option, click.Option) or not written or name in without:
            continue
        value = context.params[name]
        longest = max(option.opts, key=len)
        if option.is_flag:
            found.append(longest if value else max(option.secondary_opts, key=len))
        else:
            found += [longest, str(value)]
    return found


class ProcessGroup:
    """Runs members side by side. `code` is how they ended, `wrong` the one that cannot start."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        prefix: bool,
        listening: socket.socket | None = None,
    ) -> None:
        self._members = members
        self._width = max(len(each.name) for each in (*members, GROUP)) if prefix else 0
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._signals = 0
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._reloads = False
        workers = [each.name for each in members if each.arguments[:1] == ("worker",)]
        self._readiness = Readiness(workers, asked=listening is not None)
        self._listening = listening
        self.code = 0
        self.wrong = ""

    async def run(self, *, reload: bool) -> None:
        """Run until all have ended. With `reload` they are started anew when the code changes."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told)
        self._reloads = reload
        self._readiness.open()
        keeping = [asyncio.ensure_future(self._keep(each)) for each in self._members]
        beside = [asyncio.ensure_future(self._watch())] if reload else []
        if watchdog_seconds() is not None:
            beside.append(asyncio.ensure_future(self._kill_silent()))
        readiness = self._readiness
        try:
            async with (
                probes(self._listening, self._unready, readiness.unwell),
                signs_of_life(self._unready),
            ):
                await asyncio.gather(*keeping)
        finally:
            await cancel_tasks(beside)
            readiness.close()

    def _unready(self) -> str:
        return "draining" if self._stopping.is_set() else self._readiness.unready()

    async def _kill_silent(self) -> None:
        """Do for each worker what systemd does for the group: end it if it hangs."""
        while True:
            for name in self._readiness.silent():
                self._say(f"{name} hangs; killing it")
                self._readiness.ended(name)
                with contextlib.suppress(ProcessLookupError, KeyError):
                    self._processes[name].kill()
            await asyncio.sleep(LOOK_EVERY)

    def _told(self) -> None:
        """Handle a signal: each member gets it too; the third kills them."""
        self._signals += 1
        self._stopping.set()
        self._send(signal.SIGTERM if self._signals <= 2 else signal.SIGKILL)  # noqa: PLR2004

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _watch(self) -> None:
        async for changed in code_changes():
            self._say(f"{', '.join(changed[:3])} changed; restarting")
            changed_now, self._changed = self._changed, asyncio.Event()
            changed_now.set()
            self._send(signal.SIGTERM)

    async def _keep(self, member: Member) -> None:
        """Keep the member running until it ends by itself, or the group stops."""
        deaths, starts = 0, 0
        while not self._stopping.is_set():
            began, changed = time.monotonic(), self._changed
            code = await self._once(member)
            starts += 1
            if self._stopping.is_set():
                self.code = max(self.code, int(code not in (0, -signal.SIGTERM)))
                return
            if changed.is_set():
                deaths = 0
                continue
            if code == 0:
                return
            if code == WRONG and (starts == 1 or not self._reloads):
                self.code, self.wrong = WRONG, member.name
                self._told()
                return
            deaths = 1 if time.monotonic() - began > LONGEST_REST else deaths + 1
            await self._rest(member, code, deaths, changed)

    async def _rest(self, member: Member, code: int, deaths: int, changed: asyncio.Event) -> None:
        """Wait before the member is started again; a change or the end of the group ends that."""
        from mulligan.supervisor.process import in_words  # noqa: PLC0415 - a worker needs none of it

        rest: float | None = min(FIRST_REST * 2 ** (deaths - 1), LONGEST_REST)
        again = f"starting it again in {rest:g} s"
        if code == WRONG:
            rest, again = None, "starting it again when the code changes"
        self._say(f"{member.name} ended ({in_words(code)}); {again}")
        waits = [asyncio.ensure_future(each.wait()) for each in (self._stopping, changed)]
        await asyncio.wait(waits, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    async def _once(self, member: Member) -> int:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mulligan.cli.process_group", str(os.getpid())),
            *member.arguments,
            env=environment() | self._readiness.starts(member.name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the group alone
        )
        self._processes[member.name] = process
        if self._stopping.is_set():
            process.send_signal(signal.SIGTERM)
        assert process.stdout is not None  # noqa: S101 - both are pipes
        assert process.stderr is not None  # noqa: S101
        await asyncio.gather(
            self._pass_on(member, process.stdout, err=False),
            self._pass_on(member, process.stderr, err=True),
        )
        code = await process.wait()
        self._readiness.ended(member.name)
        del self._processes[member.name]
        return code

    async def _pass_on(self, member: Member, stream: asyncio.StreamReader, *, err: bool) -> None:
        prefix = ""
        if self._width:
            colour = COLOURS[self._members.index(member) % len(COLOURS)]
            prefix = click.style(f"{member.name:<{self._width}} | ", fg=colour)
        rest = b""
        while data := await stream.read(CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                click.echo(prefix + line.decode(errors="replace"), err=err)
        if rest:
            click.echo(prefix + rest.decode(errors="replace"), err=err)

    def _say(self, text: str) -> None:
        if self._width:
            prefix = click.style(f"{GROUP.name:<{self._width}} | ", bold=True)
            click.echo(prefix + printable(text), err=True)


async def code_changes() -> AsyncIterator[list[str]]:
    """The Python files below this folder that have changed, each time some have."""
    from watchfiles import PythonFilter, awatch  # noqa: PLC0415 - optional

    here = Path.cwd()
    async for changes in awatch(here, watch_filter=PythonFilter()):
        yield sorted({path.removeprefix(f"{here}/") for _, path in changes})


def environment() -> dict[str, str]:
    """The variables of a member: what it prints is passed on at once."""
    ours = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    return {**ours, "PYTHONUNBUFFERED": "1", IN_GROUP: "1"}


def is_member() -> bool:
    """Whether this process is one of a group, which has said what starts."""
    return IN_GROUP in os.environ


def main() -> None:
    """Run a command as a member of a group, and end when the group does."""
    from mulligan.cli import main as run  # noqa: PLC0415 - the group needs none of it
    from mulligan.engine.fork_server import die_with_parent  # noqa: PLC0415

    group = int(sys.argv.pop(1))
    die_with_parent(signal.SIGTERM)
    if os.getppid() == group:
        run()


if __name__ == "__main__":
    main()
