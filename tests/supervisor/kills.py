"""`python -m tests.supervisor.kills --count 1000`: kill -9 again and again, and count.

Workers of a running fleet are killed at random, one after the other. Each time it is measured how
long it takes until as many as before are ready again. With --supervisor N, every N-th kill is of
the supervisor itself, and another one is started. Exit code 1 if a worker ran twice, was lost, or
did not come back.
"""

# ruff: noqa: T201 - a command-line tool speaks by printing

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.supervisor.fleet import Fleet, fleet_in


def main() -> None:
    """Run it and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.supervisor.kills", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--supervisor", type=int, default=10, help="every so many kills; 0 never")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, fleet_in(Path(folder)) as fleet:
        report = run(fleet, options, random.Random(options.seed))
    print(json.dumps(report, indent=2))
    sys.exit(bool(report["leftover processes"] or report["exit code"]))


def run(fleet: Fleet, options: argparse.Namespace, chance: random.Random) -> dict[str, object]:
    """Kill, wait until the fleet is back to size, and so on; then stop it."""
    fleet.write(mail={"min": options.workers, "backoff": 0.001, "backoff_max": 0.001})
    supervisor = fleet.start()
    pids = fleet.ready("mail", options.workers)
    times: list[float] = []
    restarts = 0
    for number in range(1, options.count + 1):
        fleet.events = [event for event in fleet.events if event.get("pid") in pids.values()]
        if options.supervisor and number % options.supervisor == 0:
            supervisor.kill()
            supervisor.wait()
            supervisor = fleet.start()
            # One that dies before it is adopted is replaced, and nobody hears that it died.
            known = set(pids.values())
            fleet.until(lambda: known <= {event["pid"] for event in fleet.all("adopted")})  # noqa: B023
            assert fleet.ready("mail", options.workers) == pids, "a worker was doubled or lost"
            restarts += 1
        began = time.monotonic()
        victim = chance.choice(sorted(pids.values()))
        os.kill(victim, signal.SIGKILL)
        fleet.until(lambda: victim in {event["pid"] for event in fleet.all("died")})  # noqa: B023
        pids = fleet.ready("mail", options.workers)
        times.append(time.monotonic() - began)
        print(f"\r{number} kills", end="", file=sys.stderr)
    print(file=sys.stderr)
    code = fleet.stop(supervisor)
    times.sort()
    return {
        "kills of workers": len(times),
        "kills of the supervisor": restarts,
        "back to size, seconds": {
            "p50": round(times[len(times) // 2], 3),
            "p99": round(times[int(len(times) * 0.99)], 3),
            "max": round(times[-1], 3),
        },
        "leftover processes": len(fleet.pids()),
        "exit code": code,
    }


if __name__ == "__main__":
    main()
