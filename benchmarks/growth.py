"""Does a claim get slower as a store fills up? Claims of 100 from a full and a small store.

    python benchmarks/growth.py [--store URL] [--scale 1.0]

The full store holds 1,000,000 done, 100,000 delayed, 100,000 failed and 100,000 pending jobs; the
other one 1,000 pending jobs. Claims in the two are interleaved, and their medians compared.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.progress import Progress

from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import Attempt, Claim, NewJob
from mulligan.core.outcome import Dead, Done, Returned
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.core.facts import Facts

WORKER = Worker("bench", queues=("q",), lease=3600.0)
BODY = b'{"task":"t","args":[1],"kwargs":{}}'
BATCH = 1000


def main() -> None:
    """Fill both, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the full store's numbers")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(Path(folder), options)), indent=2))


async def measure(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Claims of 100, turn and turn about; each is returned afterwards, untimed."""
    stores = {name: make_store(f"sqlite:///{folder / name}.db") for name in ("full", "small")}
    for store in stores.values():
        await store.open()
        await store.beat(WORKER, [])
    await fill(stores["full"], options.scale)
    await enqueue(stores["small"], 1000, "p")
    times: dict[str, list[float]] = {name: [] for name in stores}
    for _ in range(options.rounds):
        for name, store in stores.items():
            plan = plan_claim(100, "default", [("q", Carry())], await store.facts())
            begin = time.perf_counter()
            claimed = await store.claim(plan, WORKER)
            times[name].append(time.perf_counter() - begin)
            await store.commit([Returned(claim.lease) for claim in claimed.claims])
    for store in stores.values():
        await store.close()
    full, small = (1000 * median(times[name]) for name in ("full", "small"))
    return {
        "claim_100_full_ms": round(full, 3),
        "claim_100_small_ms": round(small, 3),
        "ratio": round(full / small, 2),
    }


async def fill(store: Store, scale: float) -> None:
    """Done, failed, delayed and pending jobs, by the store's own operations."""
    with Progress(transient=True) as progress:
        bar = progress.add_task("filling", total=int(1_300_000 * scale))
        for kind, count in (("done", 1_000_000), ("failed", 100_000)):
            for start in range(0, int(count * scale), BATCH):
                await enqueue(store, BATCH, f"{kind}{start}-")
                await finish(store, kind)
                progress.advance(bar, BATCH)
        for kind, delay in (("delayed", 86_400.0), ("pending", 0.0)):
            for start in range(0, int(100_000 * scale), BATCH):
                await enqueue(store, BATCH, f"{kind}{start}-", delay)
                progress.advance(bar, BATCH)


async def enqueue(store: Store, count: int, prefix: str, delay: float = 0.0) -> None:
    """So many jobs in one batch."""
    await store.enqueue([NewJob(f"{prefix}{n}", "q", "t", BODY, delay=delay) for n in range(count)])


async def finish(store: Store, kind: str) -> None:
    """Claim everything that is pending, and end it."""
    facts: Facts = await store.facts()
    plan = plan_claim(BATCH, "default", [("q", Carry())], facts)
    claims = (await store.claim(plan, WORKER)).claims
    if kind == "done":
        await store.commit([Done(claim.lease, b"1") for claim in claims])
    else:
        await store.commit([Dead(claim.lease, lost(claim)) for claim in claims])


def lost(claim: Claim) -> Attempt:
    """Why it failed."""
    return Attempt(1, 0, "default", WORKER.id, claim.started_at, "ValueError", "no")


if __name__ == "__main__":
    main()
