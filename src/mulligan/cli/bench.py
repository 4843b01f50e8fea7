"""`bench`: throughput and latency on this machine."""

import tempfile
from pathlib import Path
from typing import Any

import click

from mulligan.cli.bench_run import Bench, Sizes
from mulligan.cli.find_app import check_url, json_option, store_option
from mulligan.cli.show import console, print_json, table

QUICK = Sizes(single=200, bulk=5000, plain=1000, pick_up=50, late=50, late_delay=0.5, storm=500)


@click.command()
@store_option
@json_option
@click.option("--quick", is_flag=True, help="Measure less of everything, in a few seconds.")
@click.option("--policy", default="balanced", show_default=True, help="Fetch policy of the storm.")
def bench(store: str | None, policy: str, *, as_json: bool, quick: bool) -> None:
    """Measure throughput and latency with a real worker process.

    Jobs are counted in the store, committed as any other. Without --store a SQLite file in a
    temporary folder is measured. The store is left with the jobs that were run: use an empty one.
    """
    with tempfile.TemporaryDirectory(prefix="mulligan-bench-") as folder:
        url = store or f"sqlite:///{Path(folder) / 'bench.db'}"
        check_url(url)
        if as_json:
            found = Bench(url, policy, QUICK if quick else Sizes(), lambda _step: None).run()
            print_json(found)
            return
        shown = console()
        with console(stderr=True).status("starting") as status:
            found = Bench(url, policy, QUICK if quick else Sizes(), status.update).run()
        shown.print(table(f"mulligan on {url.partition(':')[0]}", ("what", "#value"), rows(found)))


def rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures for people to read."""
    storm = found["storm"]
    return [
        ("enqueue, one by one", f"{found['enqueue_one_per_s']:,.0f} jobs/s"),
        ("enqueue, in bulk", f"{found['enqueue_bulk_per_s']:,.0f} jobs/s"),
        ("drain, coroutines that do nothing", f"{found['drain_per_s']:,.0f} jobs/s"),
        ("drain, plain functions that do nothing", f"{found['drain_plain_per_s']:,.0f} jobs/s"),
        ("pick-up by an idle worker, p50 / p99 / max", marks(found["pick_up_ms"])),
        ("lateness of a retry, p50 / p99 / max", marks(found["retry_lateness_ms"])),
        ("storm: wait of due retries, p50 / p99 / max", marks(storm["retry_wait_ms"])),
        ("storm: all done after", f"{storm['total_s']:.2f} s"),
        ("memory of an idle worker", f"{found['worker_rss_mib']:.0f} MiB"),
        ("CPU of an idle worker", f"{found['idle_cpu_percent']:.1f} %"),
    ]


def marks(spread: dict[str, float]) -> str:
    """Median, 99th percentile and largest."""
    return f"{spread['p50']:.1f} / {spread['p99']:.1f} / {spread['max']:.1f} ms"
