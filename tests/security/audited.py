"""`python -m tests.security.audited URL`: jobs on their way, while Python tells what it runs.

Prints how each job ended, and every time that data was made into objects or code, as JSON. With
`--naughty` a task does that itself, to show that it would be noticed.
"""

# ruff: noqa: T201, S301, S302, S307 - prints its report; runs data as code on purpose

import argparse
import asyncio
import json
import marshal
import pickle
import sys
from types import FrameType
from typing import Any

from mulligan import Delays, Mulligan, Retry
from tests.hostile.worker import QUICK, bare, ended, working

KEY = "k" * 32
# What Python tells of by itself, https://docs.python.org/3/library/audit_events.html
TOLD = {
    *("pickle.find_class", "marshal.load", "marshal.loads", "marshal.dumps"),
    *("compile", "exec", "code.__new__", "function.__new__"),
    *("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"),
}
# A pickle of plain values finds no class: these are replaced by what tells of them.
PICKLES = ("load", "loads", "dump", "dumps", "Pickler", "Unpickler")


class Watch:
    """Notes what is run between `begin` and `end`, but for modules that are imported."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self._watching = False
        sys.addaudithook(self._told)
        for name in PICKLES:
            setattr(pickle, name, self._telling(f"pickle.{name}", getattr(pickle, name)))

    def begin(self) -> None:
        """From now on."""
        self._watching = True

    def end(self) -> list[str]:
        """Until now; all that was noted."""
        self._watching = False
        return sorted(set(self.noted))

    def _told(self, event: str, _about: Any) -> None:
        if self._watching and event in TOLD and not is_importing(sys._getframe()):
            self.noted.append(event)

    def _telling(self, name: str, function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if self._watching:
                self.noted.append(name)
            return function(*args, **options)

        return call


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported, which is code that somebody has installed."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


async def main(url: str, *, naughty: bool) -> None:
    """Have jobs of all kinds go their whole way."""
    app = Mulligan(url, settings=QUICK, signing_keys=[KEY])
    soon = Retry(1, Delays((0,)))

    @app.task(retry=soon)
    async def add(a: int, b: dict[str, Any]) -> dict[str, Any]:
        return {"sum": a + b["more"]}

    @app.task(retry=soon)
    def total(sums: list[dict[str, Any]]) -> int:
        return sum(each["sum"] for each in sums)

    @app.task(retry=soon)
    def fail() -> None:
        raise ValueError("no luck")

    @app.task(retry=soon)
    def run() -> Any:
        return [pickle.loads(pickle.dumps(1)), marshal.loads(marshal.dumps(2)), eval("3")]

    watch = Watch()
    async with bare(app) as store:
        watch.begin()
        calls = [add.call(number, {"more": 1}) for number in range(2)]
        gathered = await app.agather(calls, total)
        dead = await fail.aenqueue()
        ran = await run.aenqueue() if naughty else None
        async with working(app):
            assert await gathered.aresult(timeout=60) == 3
            for handle in (dead, ran):
                if handle is not None:
                    await ended(store, handle.id)
        assert [attempt.message for attempt in await dead.ahistory()] == ["no luck"] * 2
        await dead.aexplain()
        noted = watch.end()
    print(json.dumps(noted))
    await asyncio.to_thread(app.close)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.security.audited", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--naughty", action="store_true")
    options = parser.parse_args()
    asyncio.run(main(options.url, naughty=options.naughty))
