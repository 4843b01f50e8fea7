"""The supervisor: keeps a fleet as its file says, whatever of it or of its workers crashes."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from mulligan.core.errors import UNREADABLE, InvalidError, MulliganError
from mulligan.core.fleets import FleetState, note_key
from mulligan.supervisor.events import Event, Happening, Tell
from mulligan.supervisor.fleet import Fleet, Kind
from mulligan.supervisor.kind_supervisor import KindSupervisor
from mulligan.supervisor.liveness import LOCK, Holder, acquire, notify, read_holder, write_holder
from mulligan.supervisor.output import emptied
from mulligan.supervisor.process import Process
from mulligan.supervisor.scale import load_of
from mulligan.supervisor.store_watch import StoreWatch

STATE = "state.json"
# How often to look for changes that nothing announces.
LOOK_EVERY = 0.2
WRITE_EVERY = 2.0
_SLOT_LOCK = re.compile(r"(?P<kind>.+)-(?P<number>\d{1,4})\.lock")


class Supervisor:
    """Runs a fleet until it is stopped. `reload` reads the file again; `tell` gets every event."""

    def __init__(self, fleet: Fleet, reload: Callable[[], Fleet], tell: Tell) -> None:
        self.fleet = fleet
        self._reload = reload
        self._tell = tell
        self._folder = fleet.state
        self._kinds: dict[str, KindSupervisor] = {}
        self._leaving: dict[str, KindSupervisor] = {}
        self.clean = True
        self._watches: dict[str, StoreWatch] = {}
        self._since = time.time()
        self._wake = asyncio.Event()
        self._stops = 0
        self._reloading: asyncio.Task[Fleet] | None = None
        self._written_at = 0.0

    def state(self) -> FleetState:
        """The state of the fleet now."""
        return FleetState(
            name=self.fleet.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            at=time.time(),
            since=self._since,
            phase="stopping" if self._stops else "running",
            kinds={name: kind.state() for name, kind in self._all.items()},
            away={watch.shown: watch.away for watch in self._watches.values() if watch.away},
        )

    async def run(self) -> None:
        """Adopt running processes, keep the fleet until stopped, then drain everything.

        Refused while another supervisor uses the same state folder.
        """
        lock = hold(self._folder, self.fleet.file)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            self._say("supervising", f"{self.fleet.file}, state in {self._folder}")
            self._take_on(self.fleet)
            self._adopt()
            notify("READY=1")
            while not (self._stops and self._all_empty()):
                self._step()
                self._write()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):
                        await self._wake.wait()
                self._wake.clear()
            self._say("stopped", "every process has ended")
            self._write(now=True)
        finally:
            await asyncio.gather(*(watch.closed() for watch in self._watches.values()))
            os.close(lock)

    def stop(self) -> None:
        """Drain all processes; a second call ends them at once."""
        self._stops += 1
        notify("STOPPING=1")
        self._say("stopping", "once more hurries" if self._stops == 1 else "at once")
        for kind in self._all.values():
            if self._stops == 1:
                kind.drain("the fleet stops")
            else:
                kind.hurry()
        self._wake.set()

    def reload(self) -> None:
        """Read the file again and use it; if it is bad, report that and keep the old one."""
        if self._reloading is None and not self._stops:
            self._reloading = asyncio.ensure_future(asyncio.to_thread(self._reload))
            self._reloading.add_done_callback(lambda _task: self._wake.set())

    # -- how -------------------------------------------------------------------------------

    def _step(self) -> None:
        if self._reloading is not None and self._reloading.done():
            self._change(self._reloading)
            self._reloading = None
        for name, kind in self._all.items():
            self._update(kind)
            if self._stops or name in self._leaving:
                kind.check()
            else:
                kind.step()
            self.clean = self.clean and (kind.clean or not self._stops)
        self._leaving = {name: kind for name, kind in self._leaving.items() if not kind.empty}

    def _update(self, kind: KindSupervisor) -> None:
        """Tell the kind what its store says about its work and its workers."""
        watch = self._watches.get(kind.kind.store)
        if watch is None or watch.stats is None:
            kind.update(None, frozenset())
            return
        load = load_of(kind.kind, watch.stats, watch.facts, kind.ids)
        live = frozenset(view.worker.id for view in watch.stats.workers if view.live)
        kind.update(load, live)

    def _take_on(self, fleet: Fleet) -> None:
        """Use this fleet: watch its stores, run its kinds, and drain kinds that it lacks."""
        for name, kind in fleet.kinds.items():
            known = self._kinds.get(name) or self._leaving.pop(name, None)
            if known is None:
                known = KindSupervisor(fleet, kind, self._folder, self._tell, self._watch)
            else:
                known.change(fleet, kind)
            self._kinds[name] = known
        for name in set(self._kinds) - set(fleet.kinds):
            self._leave(self._kinds.pop(name))
        renamed = (fleet.name, fleet.every) != (self.fleet.name, self.fleet.every)
        for url in set(self._watches) - (set() if renamed else fleet.stores):
            self._watches.pop(url).close()
        key = note_key(socket.gethostname(), fleet.name)
        for url in fleet.stores - set(self._watches):
            self._watches[url] = StoreWatch(
                url, fleet.every, key, note=self._note, tell=self._tell, changed=self._wake.set
            )
        self.fleet = fleet

    def _leave(self, kind: KindSupervisor) -> None:
        kind.drain("the fleet file no longer has this kind")
        self._leaving[kind.kind.name] = kind

    def _adopt(self) -> None:
        """Take over every process that an earlier supervisor left running."""
        unknown: dict[str, KindSupervisor] = {}
        for path in sorted(self._folder.glob("*.lock")):
            found = _SLOT_LOCK.fullmatch(path.name)
            if found is None:
                continue
            name, number = found["kind"], int(found["number"])
            kind = self._kinds.get(name) or unknown.get(name)
            if kind is None:
                kind = unknown[name] = KindSupervisor(
                    self.fleet, Kind(name), self._folder, self._tell, self._watch
                )
            kind.adopt(number)
        for kind in unknown.values():
            self._leave(kind)

    def _change(self, reading: "asyncio.Task[Fleet]") -> None:
        try:
            fleet = reading.result()
            if fleet.state != self._folder:
                raise InvalidError(f"state {fleet.state} cannot change while the fleet runs")
        except MulliganError as error:
            self._say("refused", f"{error}; the old file stays in force")
            return
        self._take_on(fleet)
        self._say("reloaded", f"{fleet.file}: {', '.join(fleet.kinds)}")

    def _watch(self, process: Process) -> None:
        """Wake up when the process ends."""
        loop = asyncio.get_running_loop()
        handle = os.dup(process.handle)

        def ended() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            self._wake.set()

        loop.add_reader(handle, ended)

    @property
    def _all(self) -> dict[str, KindSupervisor]:
        return {**self._kinds, **self._leaving}

    def _all_empty(self) -> bool:
        return all(kind.empty for kind in self._all.values())

    def _note(self) -> bytes:
        return msgspec.json.encode(self.state())

    def _write(self, *, now: bool = False) -> None:
        """Keep the state in a file, for commands that have no store to ask."""
        if now or time.monotonic() - self._written_at >= WRITE_EVERY:
            self._written_at = time.monotonic()
            draft = self._folder / f"{STATE}.new"
            with contextlib.suppress(OSError):  # a full disk must not end the fleet
                with emptied(draft) as opened:
                    opened.write(self._note())
                draft.replace(self._folder / STATE)

    def _say(self, happening: Happening, text: str) -> None:
        self._tell(Event(happening, text, time.time()))


def hold(folder: Path, file: Path) -> int:
    """Lock the state folder for as long as this process lives; refused if another has the lock."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o700)
        lock = acquire(folder / LOCK)
    except OSError as error:
        raise InvalidError(
            f"state folder {folder} cannot be used: {error.strerror}; give {file} another state"
        ) from error
    if lock is None:
        pid = read_holder(folder / LOCK).pid
        raise MulliganError(
            f"a supervisor (pid {pid}) runs on {folder} already; stop it, or give {file} another"
            " state folder"
        )
    write_holder(folder / LOCK, Holder(os.getpid(), "", time.time()))
    return lock


def read_state(folder: Path) -> FleetState | None:
    """The state that a supervisor wrote last; None if there is none."""
    try:
        return msgspec.json.decode((folder / STATE).read_bytes(), type=FleetState)
    except (OSError, *UNREADABLE):
        return None
