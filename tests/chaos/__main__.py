"""`python -m tests.chaos --store redis --seconds 60 --seed 1`: a run, its faults, its verdict.

Producers, workers and a supervisor work on a store of their own while they are killed and stopped,
the server is killed, the network fails and resources run out. Then everything is let end, and the
history that all processes wrote is checked. Exit code 1 if anything in it cannot be.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mulligan.testing.history import Clerk, InFile, report
from tests.chaos.app import URL
from tests.chaos.faults import Faults
from tests.chaos.fleet import Fleet, worker_command
from tests.chaos.judging import judge
from tests.chaos.producer import EVERY
from tests.chaos.quiet import has_finished_some, open_once, unfinished
from tests.chaos.recording import HISTORY
from tests.chaos.showing import show, summary
from tests.chaos.stand import STORES, Stand, fake_clock, stand, with_mounts_of_its_own

APP = "tests.chaos.app:app"
LOOK_EVERY = 0.1
# How far off the clocks of workers are, where that may be: most are right.
CLOCKS = (0, 0, 0, -600, 90, 3600)
KIND = {
    "app": APP, "min": 1, "max_concurrent": 1, "cooldown": 0, "backoff": 0.1, "backoff_max": 0.5,
    "drain_timeout": 20,
}  # fmt: skip


def main() -> None:
    """Run chaos on one store; exit 1 if a job was lost or doubled, or a promise broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--seconds", type=float, default=60, help="how long faults go on")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--every", type=float, default=1.5, help="seconds between two faults")
    parser.add_argument("--rate", type=float, default=4, help="batches of 12 jobs a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=240, help="seconds to let all work end")
    parser.add_argument("--keep", type=Path, help="where to keep the history and the log")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    if options.store == "sqlite":
        with_mounts_of_its_own()
    with stand(options.store) as place, tempfile.TemporaryDirectory() as folder:
        result = run(place, options.keep or Path(folder), options)
    print(json.dumps(result, indent=2)) if options.as_json else show(result)
    sys.exit(bool(result["violations"] or result["lost"] or result["unended"]))


def run(place: Stand, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Start everything, do harm for a while, let all work end, and judge."""
    history, state = folder / "history", folder / "fleet"
    history.mkdir(parents=True)
    chance = random.Random(options.seed)
    clerk = Clerk(InFile(history / "faults.jsonl"), "faults", time.monotonic)
    fleet = start(place, folder, options, chance)
    faults = Faults(place, fleet, state, clerk, chance)
    began = time.monotonic()
    try:
        while not has_finished_some(place.direct) and time.monotonic() < began + options.limit:
            time.sleep(LOOK_EVERY)
        began = time.monotonic()
        harm(fleet, faults, began + options.seconds, options.every)
        fleet.retire("producer")
        unended = let_end(fleet, place.direct, options.limit)
    finally:
        faults.undo(every=True)
        log = fleet.stop()
        if options.keep:
            (folder / "log").write_text(log)
    seconds = time.monotonic() - began
    verdict = judge(history, place.direct)
    if verdict.violations:
        print(report(verdict.violations), file=sys.stderr)
    return summary(options.store, options.seed, seconds, faults, verdict) | {"unended": unended}


def start(place: Stand, folder: Path, options: argparse.Namespace, chance: random.Random) -> Fleet:
    """The processes of the run, which know it by their environment."""
    file = folder / "fleet.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in KIND.items()]
    head = ["every = 0.2", "orphan_grace = 30", f"state = {json.dumps(str(folder / 'fleet'))}"]
    file.write_text("\n".join([*head, "[kinds.supervised]", *lines]))
    commands = {
        "worker": worker_command(APP),
        "producer": ["tests.chaos.producer"],
        "supervisor": ["mulligan", "supervise", str(file), "--json"],
    }
    sizes = {"worker": options.workers, "producer": 1, "supervisor": 1}
    env = {URL: place.url, HISTORY: str(folder / "history"), EVERY: str(1 / options.rate)}

    def clock() -> dict[str, str]:
        # A file is shared by one machine, and so is its clock: that is the store's.
        return {} if place.server is None else fake_clock(chance.choice(CLOCKS))

    open_once(place.direct)
    fleet = Fleet(commands, sizes, env, chance, clock)
    fleet.fill()
    return fleet


def harm(fleet: Fleet, faults: Faults, until: float, every: float) -> None:
    """One fault after the other until the time is up; what died is replaced."""
    strike_at = time.monotonic() + 2 * every
    while (now := time.monotonic()) < until:
        if now >= strike_at:
            faults.strike()
            strike_at = now + every
        faults.undo()
        fleet.wake()
        fleet.fill()
        time.sleep(LOOK_EVERY)
    faults.undo(every=True)


def let_end(fleet: Fleet, url: str, limit: float) -> int:
    """Heal everything and wait until no job waits or runs; how many still do when time is up."""
    deadline = time.monotonic() + limit
    while (left := unfinished(url)) and time.monotonic() < deadline:
        fleet.wake()
        fleet.fill()
        time.sleep(5 * LOOK_EVERY)
    return left


if __name__ == "__main__":
    main()
