"""What limits and fairness keys cost, and whether they hold: a table for each store.

    python -m benchmarks.limits [STORE ...] [--only drain,waiting,keys,storm] [--rounds 5]
        [--jobs 10000] [--waiting 100000] [--keys 10000] [--seconds 60] [--before SRC] [--json FILE]

Stores are memory, sqlite, redis, postgres, mongo; servers are those that MULLIGAN_TEST_*_URL name.
Two places of a store are measured in turn, round by round, each by a process of its own, and what
counts are the medians of the ratios: whatever else the machine does strikes both alike.

- drain: one limit that never blocks beside none, in jobs a second: permits, and a rate. With
  --before, the folder `src` of an older mulligan, also plain jobs now beside plain jobs then.
- waiting: plain jobs, 1,000 at a time, beside so many that wait for a limit, and without them; and
  how soon an idle worker starts a job.
- keys: so many fairness keys beside one.
- storm: two worker processes in two regions and a rate of 500 a second. Told are the most starts
  in any second by the store's clock, those above the bound, and how much of it was used; then the
  same as a token bucket.
"""

import argparse
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.windows import over_bucket, over_window, used

ROOT = Path(__file__).parent.parent
STORES = ("memory", "sqlite", "redis", "postgres", "mongo")
BESIDE, PICK_UPS, PINGS = 1000, 50, 200
RATE, BURST = 500, 50
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def main():
    """Measure each store, and print its table."""
    options = read_options()
    found = {}
    for store in options.stores:
        found[store] = measure(store, options)
        for name, value in found[store].items():
            print(f"{store:10}{name:58}{value}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def read_options():
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    there = [name for name in STORES if name in ("memory", "sqlite") or variable(name)]
    parser.add_argument("stores", nargs="*", default=there, metavar="STORE")
    parser.add_argument("--only", default="drain,waiting,keys,storm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.only = options.only.split(",")
    for store in options.stores:
        if store not in there:
            parser.error(f"store {store!r} is not at hand; there are {', '.join(there)}")
    if options.before and not (options.before / "mulligan").is_dir():
        parser.error(f"--before {options.before} has no mulligan in it; name the src of a checkout")
    return options


def measure(store, options):
    """The figures of one store, by what they are."""
    with Player(store) as one:
        found = {"ping, ms": rounded(statistics.median(one.ask("ping", PINGS)))}
    for part in options.only:
        found |= PARTS[part](store, options)
    return found


def drained(store, options):
    """One limit that never blocks, and no limit."""
    found = {}
    with Player(store) as without:
        for kind in ("permits", "starts"):
            with Player(store) as limited:
                both = in_turn(options.rounds, (without, "plain"), (limited, kind), options.jobs)
            found |= said(both, "plain", f"one limit of {kind}")
        if options.before:
            with Player(store, source=options.before) as older:
                sides = (older, "plain"), (without, "plain")
                both = in_turn(options.rounds, *sides, options.jobs)
            found |= said(both, "plain before", "plain now")
    return found


def beside_waiting(store, options):
    """Plain jobs beside many that wait for a limit, and alone."""
    with Player(store) as alone, Player(store) as beside:
        filled = beside.ask("fill", "stuck", options.waiting)
        beside.ask("fill", "plain", 1)
        beside.ask("drain", 2)  # the one stuck job that there is room for, and a plain one
        found = {f"enqueue {options.waiting:,} that wait, per s": round(filled)}
        sides = (alone, "plain"), (beside, "plain")
        both = in_turn(options.rounds * 3, *sides, BESIDE)
        found |= said(both, f"{BESIDE:,} alone", f"beside {options.waiting:,} waiting")
        picked = [], []
        for number in range(options.rounds):
            for each in (0, 1) if number % 2 else (1, 0):
                picked[each].extend((alone, beside)[each].ask("pick_up", PICK_UPS))
    for name, times in zip(("alone", f"beside {options.waiting:,} waiting"), picked, strict=True):
        found[f"pick-up {name}, ms p50"] = rounded(statistics.median(times))
    return found


def with_keys(store, options):
    """Many fairness keys, and one."""
    with Player(store) as one, Player(store, keys=options.keys) as many:
        sides = (one, "one key"), (many, "many keys")
        both = in_turn(options.rounds, *sides, options.jobs)
    return said(both, "one key", f"{options.keys:,} keys")


def storm(store, options):
    """Two worker processes under a rate, in either form."""
    if store == "memory":
        return {}
    found = {}
    allowed = round(RATE * options.seconds)
    for burst in (None, BURST):
        limit = {"rate": RATE, "per": 1} | ({"burst": burst} if burst else {})
        name = f"{RATE}/s" + (f" in bursts of {burst}" if burst else "")
        claimed = starts(store, limit, allowed, options.seconds)
        most, over = over_bucket(claimed, RATE, burst) if burst else over_window(claimed, RATE, 1)
        share = used(claimed, RATE, options.seconds, burst or 0)
        found[f"{name}: most at a time, bound {burst or RATE}"] = most
        found[f"{name}: starts above the bound"] = over
        found[f"{name}: used, %"] = rounded(100 * share)
    return found


def starts(store, limit, allowed, seconds):
    """When jobs were claimed by two workers, by the store's clock, for so long."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        environment = {"MULLIGAN_BENCH_LIMIT": json.dumps(limit), "MULLIGAN_BENCH_NOTES": notes}
        with Player(store, **environment) as player:
            player.ask("fill", "storm", allowed + 2 * RATE)
            command = [sys.executable, "-m", "mulligan", "worker", "benchmarks.limits_player:app"]
            command += ["--log-level", "error", "--region"]
            workers = [
                subprocess.Popen([*command, region], env=player.environment, cwd=ROOT, **quiet)
                for region in ("east", "west")
            ]
            try:
                while not notes.exists() or not notes.stat().st_size:
                    time.sleep(0.05)
                time.sleep(seconds + 1)
            finally:
                for worker in workers:
                    worker.send_signal(signal.SIGKILL)
                    worker.wait()
        return sorted(float(line.split()[0]) for line in notes.read_text().splitlines())


class Player:
    """A process with a place of its own in the store."""

    def __init__(self, store, *, source=None, keys=1, **environment):
        paths = [str(ROOT)] if source is None else [str(source.resolve()), str(ROOT)]
        told = {"MULLIGAN_BENCH_URL": place(store), "MULLIGAN_BENCH_KEYS": str(keys)}
        told |= {"PYTHONPATH": os.pathsep.join(paths)} | environment
        self.environment = os.environ | {name: str(value) for name, value in told.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.limits_player"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self.environment,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.process.kill()
        self.process.communicate()

    def ask(self, *request):
        """Have it do something; what it answers."""
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{request[0]} was not answered")
        return json.loads(answer)


def in_turn(rounds, one, other, jobs):
    """Enqueues and starts a second of both sides, round by round; the first round warms up."""
    found = [], []
    for number in range(rounds + 1):
        for each in (0, 1) if number % 2 else (1, 0):
            player, kind = (one, other)[each]
            found[each].append((player.ask("fill", kind, jobs), player.ask("drain", jobs)))
    return [pairs[1:] for pairs in found]


def said(both, one, other):
    """The medians of both sides, and of their ratios."""
    lines = {}
    for index, verb in enumerate(("enqueue", "drain")):
        sides = [[pair[index] for pair in pairs] for pairs in both]
        ratio = statistics.median(b / a for a, b in zip(*sides, strict=True))
        shown = " -> ".join(f"{statistics.median(side):,.0f}/s" for side in sides)
        lines[f"{verb}: {one} -> {other}"] = f"{ratio:.2f}   {shown}"
    return lines


def place(store):
    """The URL of an empty place."""
    mark = secrets.token_hex(4)
    if store == "memory":
        return "memory://"
    if store == "sqlite":
        return f"sqlite:///{tempfile.mkdtemp()}/limits.db"
    url = variable(store)
    if store == "mongo":
        return urlsplit(url)._replace(path=f"/limits_{mark}").geturl()
    return url + (f"?prefix={mark}" if store == "redis" else f"?schema=limits_{mark}")


def variable(store):
    """The URL of a test server, if there is one."""
    return os.environ.get(f"MULLIGAN_TEST_{store.upper()}_URL")


def rounded(value):
    """To three digits."""
    return float(f"{value:.3g}")


PARTS = {"drain": drained, "waiting": beside_waiting, "keys": with_keys, "storm": storm}


if __name__ == "__main__":
    main()
