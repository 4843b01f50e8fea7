"""`python -m tests.chaos --store redis --seconds 60 --seed 1`: a run, its faults, its verdict.

Producers, workers and a supervisor work on a store of their own while they are killed and stopped,
the server is killed, the network fails and resources run out. Then everything is let end, some more
work is done in peace, and the history that all processes wrote is checked. Exit code 1 if anything
in it cannot be.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.chaos.app import LEASE, ONLY_LIMITED, URL, WEST, WINDOW
from tests.chaos.faults import KILLED, STOPPED, Faults
from tests.chaos.figures import show, summary
from tests.chaos.fleet import Fleet, worker_command
from tests.chaos.operator_process import LEAVE
from tests.chaos.producer import EVERY
from tests.chaos.quiet import has_finished_some, has_refused, open_once, unfinished
from tests.chaos.recorded_app import HISTORY
from tests.chaos.stand import STORES, Stand, stand, with_mounts_of_its_own
from tests.chaos.verdict import judge
from tests.history import Clerk, InFile, report

APP = "tests.chaos.app:app"
LOOK_EVERY = 0.1
# How much longer it may take until everything that chaos is about has happened.
STRUCK_WITHIN = 90.0
# None of this may be.
BAD = ("violations", "lost", "unended", "had to be killed in the end")
KIND = {
    "app": APP, "region": WEST, "min": 1, "max_concurrent": 1, "cooldown": 0, "backoff": 0.1,
    "backoff_max": 0.5, "drain_timeout": 20,
}  # fmt: skip


def main() -> None:
    """Run chaos on one store; exit 1 if a job was lost or doubled, or a promise broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--seconds", type=float, default=60, help="how long faults go on")
    parser.add_argument("--calm", type=float, default=8, help="how long work goes on in peace")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--every", type=float, default=1.5, help="seconds between two faults")
    parser.add_argument("--rate", type=float, default=4, help="batches of 14 calls a second")
    parser.add_argument(
        "--only-limited",
        action="store_true",
        help="only jobs with limits and fairness keys, and workers that are killed and stopped",
    )
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
    sys.exit(any(result[each] for each in BAD))


def run(place: Stand, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Start everything, do harm for a while, let all work end, and judge."""
    history, state = folder / "history", folder / "fleet"
    history.mkdir(parents=True)
    chance = random.Random(options.seed)
    clerk = Clerk(InFile(history / "faults.jsonl"), "faults", time.monotonic)
    open_once(place.direct)
    fleet = make_fleet(place, folder, options, chance)
    faults = Faults(place, fleet, state, clerk, chance)
    if options.only_limited:
        faults.only = (KILLED, STOPPED)
    else:
        fleet.worker_env = faults.clock
    fleet.fill()
    began = time.monotonic()
    try:
        while not has_finished_some(place.direct) and time.monotonic() < began + options.limit:
            time.sleep(LOOK_EVERY)
        began = time.monotonic()
        harm(fleet, faults, began + options.seconds, options.every)
        if options.only_limited:
            faults.undo(every=True)
            fleet.wake(every=True)
        else:
            until_all_struck(place, fleet, faults, options.every)
        fleet.retire("operator")
        fleet.run("operator", LEAVE)  # the last one may have been told to end before it had begun
        fleet.retire("producer")
        unended = let_end(fleet, place.direct, options.limit)
        calm_from = time.monotonic()
        if not unended:
            time.sleep(WINDOW)  # of starts before that, no limit knows any more
            rest(fleet, calm_from + WINDOW + options.calm)
            unended = let_end(fleet, place.direct, options.limit)
    finally:
        try:
            faults.undo(every=True)
        finally:
            log = fleet.stop()
            if options.keep:
                (folder / "log").write_text(log)
    seconds = time.monotonic() - began
    verdict = judge(history, place.direct, calm_from)
    if verdict.violations:
        print(report(verdict.violations), file=sys.stderr)
    result = summary(options.store, options.seed, seconds, faults, verdict)
    return result | {"unended": unended, "had to be killed in the end": fleet.unwilling}


def make_fleet(
    place: Stand, folder: Path, options: argparse.Namespace, chance: random.Random
) -> Fleet:
    """The processes of the run, which know it by their environment; none is started yet."""
    file = folder / "fleet.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in KIND.items()]
    head = ["every = 0.2", "orphan_grace = 30", f"state = {json.dumps(str(folder / 'fleet'))}"]
    file.write_text("\n".join([*head, "[kinds.supervised]", *lines]))
    commands = {
        "worker": worker_command(APP),
        "producer": ["tests.chaos.producer"],
        "operator": ["tests.chaos.operator_process"],
        "supervisor": ["mulligan", "supervise", str(file), "--json"],
    }
    sizes = {"worker": options.workers, "producer": 1, "operator": 1, "supervisor": 1}
    env = {URL: place.url, HISTORY: str(folder / "history"), EVERY: str(1 / options.rate)}
    env |= {ONLY_LIMITED: "1"} if options.only_limited else {}
    return Fleet(commands, sizes, env, chance)


def harm(fleet: Fleet, faults: Faults, until: float, every: float) -> None:
    """One fault after the other until the time is up; what died is replaced."""
    strike_at = time.monotonic() + 2 * every
    while (now := time.monotonic()) < until:
        if now >= strike_at:
            faults.strike()
            strike_at = now + every
        keep_up(fleet, faults)


def until_all_struck(place: Stand, fleet: Fleet, faults: Faults, every: float) -> None:
    """Go on until every kind of fault has struck and a late commit was refused; then heal."""
    deadline = time.monotonic() + STRUCK_WITHIN
    while time.monotonic() < deadline:
        faults.undo(every=True)
        left = [kind for kind in faults.missing if kind in faults.kinds]
        if not left and has_refused(place.direct):
            break
        faults.strike(left[0] if left else STOPPED)
        until = time.monotonic() + max(every, 2 * LEASE)
        while time.monotonic() < until:
            keep_up(fleet, faults)
    faults.undo(every=True)
    fleet.wake(every=True)


def keep_up(fleet: Fleet, faults: Faults) -> None:
    """Take back what has lasted long enough, and replace who died."""
    faults.undo()
    fleet.wake()
    fleet.fill()
    time.sleep(LOOK_EVERY)


def rest(fleet: Fleet, until: float) -> None:
    """Work on for a while with nobody who does harm."""
    fleet.hire("producer")
    while time.monotonic() < until:
        time.sleep(LOOK_EVERY)
    fleet.retire("producer")


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
