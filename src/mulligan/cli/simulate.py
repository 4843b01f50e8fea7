"""`simulate`: plays a scenario with the real engine, on a virtual clock."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace
from rich.progress import Progress, TaskID

from mulligan.cli.find_app import json_option
from mulligan.cli.show import Listing, console, print_json, progress, table
from mulligan.cli.show import as_json as in_json
from mulligan.core.errors import InvalidError
from mulligan.core.fetch import policy_text
from mulligan.sim import (
    Run,
    Scenario,
    builtin_names,
    builtin_titles,
    chart,
    load_scenario,
    page,
    png,
    summary,
    with_policy,
)
from mulligan.sim import simulate as play
from mulligan.sim.png import renderer

FEW_ATTEMPTS = 40
KINDS = {"on": (True,), "off": (False,), "both": (True, False)}
SUFFIXES = (".svg", ".html", ".png")


def names_like(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Built-in scenarios whose name begins so, for completion."""
    return [name for name in builtin_names() if name.startswith(begun)]


@click.command()
@click.argument("scenario", required=False, shell_complete=names_like)
@json_option
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="P",
    help="Fetch policy instead of the scenario's, such as weighted(retry=0.2); repeat to compare.",
)
@click.option(
    "--chart",
    "drawing",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw timelines and backlogs into this .svg, .html or .png file.",
)
@click.option("--seed", type=click.IntRange(0, 2**63), help="Seed instead of the scenario's.")
@click.option(
    "--hold/--no-hold",
    "hold",
    default=None,
    help="Whether a slot stays idle through the backoff of its failed job.",
)
@click.option(
    "--breaker",
    "breaker",
    type=click.Choice(["on", "off", "both"]),
    help="Whether failing regions get probes only; both compares.",
)
@click.option(
    "--limits",
    "limited",
    type=click.Choice(["on", "off", "both"]),
    help="Whether jobs name their limits; both compares.",
)
@click.option(
    "--fairness",
    "fair",
    type=click.Choice(["on", "off", "both"]),
    help="Whether jobs have their fairness keys; both compares.",
)
@click.option("--list", "listing", is_flag=True, help="List the built-in scenarios.")
def simulate(
    scenario: str | None,
    policies: Sequence[str],
    drawing: Path | None,
    seed: int | None,
    *,
    breaker: str | None,
    limited: str | None,
    fair: str | None,
    hold: bool | None,
    as_json: bool,
    listing: bool,
) -> None:
    """Play a scenario in virtual time, and compare waits by policy.

    SCENARIO is a TOML file, the name of a built-in scenario, or a .jsonl trace that `mulligan
    history` wrote. The same seed gives the same output.
    """
    if listing:
        show_list(as_json=as_json)
        return
    if scenario is None:
        raise InvalidError(
            f"no scenario is named; give a TOML file or one of {', '.join(builtin_names())}"
        )
    if drawing is not None:
        check_drawing(drawing)
    loaded = load_scenario(scenario)
    if seed is not None:
        loaded = replace(loaded, seed=seed)
    if hold is not None:
        loaded = replace(loaded, hold_through_backoff=hold)
    scenarios = [with_policy(loaded, word) for word in policies] or [loaded]
    for field, word in (("breaker", breaker), ("limited", limited), ("fair", fair)):
        scenarios = [replace(each, **{field: kind}) for each in scenarios for kind in KINDS[word]
                     ] if word is not None else scenarios  # fmt: skip
    runs = run_all(scenarios)
    if drawing is not None:
        save(runs, drawing)
    if as_json:
        for part in documents(runs, listed=len(runs) > 1):
            click.echo(part, nl=False)
    else:
        show(runs)


def show_list(*, as_json: bool) -> None:
    """The built-in scenarios."""
    titles = builtin_titles()
    if as_json:
        print_json(titles)
    else:
        console().print(table("", ("=scenario", "~what happens"), titles.items()))


def run_all(scenarios: Sequence[Scenario]) -> list[Run]:
    """Play each scenario, with a progress bar on a terminal."""
    runs = []
    with progress() as bar:
        for scenario in scenarios:
            row = bar.add_task(policy_text(scenario.queue.policy), total=None)
            runs.append(play(scenario, partial(advance, bar, row)))
    return runs


def advance(bar: Progress, row: TaskID, ended: int, jobs: int) -> None:
    """Move the progress bar."""
    bar.update(row, completed=ended, total=jobs)


def check_drawing(drawing: Path) -> None:
    """Refuse a chart that could not be written, before anything is played."""
    if drawing.suffix not in SUFFIXES:
        raise InvalidError(f"chart {str(drawing)!r} must end in {', '.join(SUFFIXES)}")
    if drawing.suffix == ".png":
        renderer()


def save(runs: Sequence[Run], drawing: Path) -> None:
    """Write the chart."""
    picture = chart(runs)
    if drawing.suffix == ".html":
        picture = page(picture, runs[0].scenario.title or runs[0].scenario.name)
    content = png(picture) if drawing.suffix == ".png" else picture.encode()
    try:
        drawing.write_bytes(content)
    except OSError as error:
        raise InvalidError(f"chart {str(drawing)!r} cannot be written: {error.strerror}") from error


def documents(runs: Sequence[Run], *, listed: bool) -> Iterator[str]:
    """The runs as one JSON document, with one event per line, in parts: there may be millions."""
    for index, run in enumerate(runs):
        yield ",\n" if index else "[" if listed else ""
        yield from document(run)
    yield "]\n" if listed else "\n"


def document(run: Run) -> Iterator[str]:
    """One run as JSON, in parts."""
    about = {
        "scenario": run.scenario.name,
        "policy": policy_text(run.policy),
        "breaker": run.scenario.breaker,
        "limits": run.scenario.limited,
        "fairness": run.scenario.fair,
        "seed": run.scenario.seed,
    }
    yield "{" + ",\n".join(f'"{name}": {in_json(value)}' for name, value in about.items())
    for index, event in enumerate(run.log.events):
        yield (",\n" if index else ',\n"events": [\n') + in_json(event._asdict())
    yield f'\n],\n"summary": {in_json(summary(run))}}}'


def show(runs: Sequence[Run]) -> None:
    """Tables for people: the attempts of a small run, and the summary of each run."""
    shown = console()
    scenario = runs[0].scenario
    if len(runs) == 1 and len(runs[0].log.attempts) <= FEW_ATTEMPTS:
        shown.print(attempts_table(runs[0]))
    columns = ("what", *(f"#{run.title}" for run in runs))
    sums = [summary(run) for run in runs]
    speeds = [f"{len(run.log.attempts) / run.machine_seconds:,.0f}" for run in runs]
    rows = [
        *rows_of(sums),
        ("attempts per second of machine time", *speeds),
    ]
    shown.print(table(scenario.title or scenario.name, columns, rows))


def attempts_table(run: Run) -> Listing:
    """Every attempt in the order of start."""
    rows = [
        (f"{a.started:g}", a.job, a.number, a.region, a.lane, a.ending, f"{a.ended:g}")
        for a in run.log.attempts
    ]
    columns = ("#start", "job", "#attempt", "region", "lane", "ending", "#end")
    return table("", columns, rows)


def rows_of(sums: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """A row for each number, a column for each run."""
    rows: list[tuple[Any, ...]] = [
        ("jobs done", *(each["done"] for each in sums)),
        ("jobs failed", *(each["failed"] for each in sums)),
    ]
    if any(each["unfinished"] for each in sums):
        rows.append(("jobs unfinished", *(each["unfinished"] for each in sums)))
    rows.append(("attempts", *(each["attempts"] for each in sums)))
    if any(each["reclaimed"] for each in sums):
        rows.append(("attempts lost and reclaimed", *(each["reclaimed"] for each in sums)))
    rows.append(("makespan, s", *(number(each["makespan"]) for each in sums)))
    for kind, words in (("fresh", "wait of fresh jobs"), ("retry", "wait of due retries")):
        rows += [
            (f"{words}, {mark}, s", *(number(each["wait"][kind][mark]) for each in sums))
            for mark in ("p50", "p99", "max")
        ]
    lanes = sorted({lane for each in sums for lane in each["starts_by_lane"]})
    rows += [
        (f"starts from {lane}", *(each["starts_by_lane"].get(lane, 0) for each in sums))
        for lane in lanes
    ]
    return [
        *rows,
        ("largest retry backlog", *(each["largest_retry_backlog"] for each in sums)),
        ("retries in another region", *(share(each["cross_region_share"]) for each in sums)),
        ("time saved by priority, s", *(number(each["time_saved"]["total"]) for each in sums)),
        ("  for each retry", *(number(each["time_saved"]["mean"]) for each in sums)),
        *(row for region in sums[0]["regions"] for row in region_rows(region, sums)),
        *(
            (f"calls refused by {name}, of all",
             *(f"{each['providers'][name]['refused']} of {each['providers'][name]['calls']}"
               for each in sums))
            for name in sums[0]["providers"]
        ),
        *key_rows([each["keys"] for each in sums]),
    ]  # fmt: skip


def key_rows(keys: Sequence[dict[str, Any] | None]) -> list[tuple[Any, ...]]:
    """How long the busiest fairness key waited, and all others; none if no job has one."""
    known = [each for each in keys if each is not None]
    if not known:
        return []
    names = {"busiest": f"wait of {known[0]['busiest']['key']}", "others": "wait of other keys"}
    return [
        (f"{words}, {mark}, s", *(number(each[who]["wait"][mark]) for each in known))
        for who, words in names.items()
        for mark in ("p50", "max")
    ]


def region_rows(name: str, sums: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows of a region; none if nothing failed there."""
    found = [each["regions"][name] for each in sums]
    if not any(each["failures"] for each in found):
        return []
    rows: list[tuple[Any, ...]] = [
        (f"{name}: failures, of attempts",
         *(f"{each['failures']} of {each['attempts']}" for each in found)),
    ]  # fmt: skip
    if any(each["breaker"] for each in found):
        rows += [
            (f"{name}: breaker {what}, s",
             *(times(switch[what] for switch in each["breaker"]) for each in found))
            for what in ("opened", "closed")
        ]  # fmt: skip
    if any(each["outages"] for each in found):
        rows.append(
            (f"{name}: last retry failed in its outage, s",
             *(times(outage["last_failed_retry"] for outage in each["outages"]) for each in found))
        )  # fmt: skip
    return rows


def times(moments: Iterable[float | None]) -> str:
    """Times in a row, with a dash for one that never came."""
    return ", ".join(number(moment) or "-" for moment in moments)


def number(value: float | None) -> str | None:
    """A number of seconds, rounded for comparison."""
    return None if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")


def share(value: float | None) -> str | None:
    """A share in per cent."""
    return None if value is None else f"{value:.0%}"
