"""Reads a scenario from TOML; an error in it is refused with its line."""

from typing import Any

from mulligan.core.checks import check_name, check_region, class_name
from mulligan.core.lane import ANYWHERE, priority_of
from mulligan.core.retry import Retry
from mulligan.sim.policies import RETRY, own_retry, read_queue, read_retry
from mulligan.sim.scenario import (
    EVERY,
    FIRST,
    JOBS_LIMIT,
    Duration,
    Jobs,
    Region,
    Scenario,
    Stream,
)
from mulligan.sim.scenario_limits import (
    NEEDS,
    check_needs,
    read_limits,
    read_needs,
    read_providers,
    with_weights,
)
from mulligan.tables import Document, Table

DISTRIBUTIONS = {
    "exponential": ("mean",),
    "lognormal": ("mean", "sigma"),
    "uniform": ("min", "max"),
}
TOP = (
    "title", "seed", "until", "hold_through_backoff", "breaker",
    "retry", "fetch", "budget", "regions", "jobs", "streams", "limits", "providers", "weights",
)  # fmt: skip


def read_scenario(name: str, text: str) -> Scenario:
    """Read it; `name` is what errors call the file."""
    document = Document(name, text, "the scenario")
    root = document.root
    root.only(*TOP)
    retry_table = root.table("retry")
    retry_table.only(*RETRY, "grace")
    retry = read_retry(retry_table, Retry())
    regions = read_regions(root)
    known = {region.name for region in regions}
    jobs = tuple(read_jobs(table, known, retry) for table in root.tables("jobs"))
    streams = tuple(
        read_stream(table, known, retry, number)
        for number, table in enumerate(root.tables("streams"), 1)
    )
    check_jobs(root, jobs, streams)
    limits, providers = read_limits(root), read_providers(root)
    check_needs(root, limits, {each.name for each in providers})
    return Scenario(
        name=name,
        regions=regions,
        jobs=jobs,
        streams=streams,
        queue=with_weights(root, read_queue(root, retry_table)),
        seed=root.count("seed", 0, most=2**63),
        until=root.number("until", 86_400.0, above=True),
        hold_through_backoff=root.flag("hold_through_backoff"),
        breaker=root.flag("breaker", default=True),
        title=root.text("title", ""),
        limits=tuple(limits.items()),
        providers=providers,
    )


def read_regions(root: Table) -> tuple[Region, ...]:
    """The regions in the order of the file, which decides ties."""
    tables = root.table("regions")
    if not tables.names():
        tables.refuse_all("the scenario has no region; add [regions.US]")
    return tuple(read_region(tables.table(name), tables, name) for name in tables.names())


def read_region(table: Table, tables: Table, name: str) -> Region:
    """One region."""
    tables.checked(name, lambda: check_region(name, anywhere=False))
    table.only(
        "workers", "concurrency", "failure_rate", "slowdown", "outage", "fail_after", "error"
    )  # fmt: skip
    windows = []
    for window in table.items("outage"):
        if not is_window(window):
            table.refuse("outage", f"outage {window!r} must be [begin, end], begin before end")
        windows.append((float(window[0]), float(window[1])))
    return Region(
        name,
        table.count("workers", 1, least=1, most=1000),
        table.count("concurrency", 1, least=1, most=1000),
        table.number("failure_rate", 0.0, most=1.0),
        table.number("slowdown", 1.0, above=True),
        tuple(windows),
        table.number("fail_after") if "fail_after" in table else None,
        read_error(table),
    )


def is_window(value: Any) -> bool:
    """Whether it is a start and an end in seconds."""
    match value:
        case [int() | float() as begin, int() | float() as end]:
            return 0 <= begin < end
        case _:
            return False


def read_jobs(table: Table, known: set[str], retry: Retry) -> Jobs:
    """One entry of [[jobs]]."""
    table.only(
        "id", "region", "at", "duration", "fail", "crash", "count", "priority", "retry", "error",
        *NEEDS,
    )  # fmt: skip
    id_ = table.text("id")
    table.checked("id", lambda: check_name("id", id_))
    return Jobs(
        id=id_,
        region=read_job_region(table, known),
        at=table.number("at", 0.0),
        duration=read_duration(table),
        retry=own_retry(table, retry),
        count=table.count("count", 1, least=1, most=JOBS_LIMIT),
        priority=read_priority(table),
        fail=read_attempts(table, "fail"),
        crash=read_attempts(table, "crash"),
        error=read_error(table),
        needs=read_needs(table),
    )


def read_stream(table: Table, known: set[str], retry: Retry, number: int) -> Stream:
    """One entry of [[streams]]."""
    table.only(
        "id", "region", "rate", "from", "until", "duration", "fail_first", "priority", "retry",
        "error",
    )  # fmt: skip
    begin = table.number("from", 0.0)
    id_ = table.text("id", f"s{number}")
    table.checked("id", lambda: check_name("id", id_))
    return Stream(
        id=id_,
        region=read_job_region(table, known),
        rate=table.number("rate", above=True),
        begin=begin,
        until=table.number("until", least=begin, above=True),
        duration=read_duration(table),
        retry=own_retry(table, retry),
        priority=read_priority(table),
        fail_first=table.number("fail_first", 0.0, most=1.0),
        error=read_error(table),
        needs=read_needs(table),
    )


def read_error(table: Table) -> str | None:
    """The class that failing attempts raise, by name; None if none is said."""
    if "error" not in table:
        return None
    name = table.text("error")
    return table.checked("error", lambda: class_name("error", name))


def read_job_region(table: Table, known: set[str]) -> str:
    """The region that jobs are enqueued for; `*` is any."""
    region = table.text("region", ANYWHERE)
    if region not in known and region != ANYWHERE:
        table.refuse("region", f"region {region!r} is not one of {', '.join(sorted(known))}")
    return region


def read_priority(table: Table) -> int:
    """Normal, retry or urgent, by word or number."""
    said = table.value("priority") if "priority" in table else "normal"
    return table.checked("priority", lambda: priority_of(said))


def read_duration(table: Table) -> Duration:
    """A number of seconds, or a distribution."""
    if not isinstance(table.value("duration"), dict):
        return Duration(mean=table.number("duration"))
    inner = table.table("duration")
    kind = inner.text("dist")
    if kind not in DISTRIBUTIONS:
        inner.refuse("dist", f"dist {kind!r} is not one of {', '.join(DISTRIBUTIONS)}")
    inner.only("dist", *DISTRIBUTIONS[kind])
    if kind == "uniform":
        low = inner.number("min", 0.0)
        return Duration(kind, low=low, high=inner.number("max", least=low))
    sigma = inner.number("sigma", 0.5, above=True) if kind == "lognormal" else 0.5
    return Duration(kind, mean=inner.number("mean", above=True), sigma=sigma)


def read_attempts(table: Table, name: str) -> frozenset[int]:
    """Numbers of attempts, from 1; "all" is every one."""
    if name in table and table.value(name) == "all":
        return EVERY
    numbers = table.items(name)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            table.refuse(name, f"{name} {number!r} is not the number of an attempt; the first is 1")
    return FIRST if list(numbers) == [1] else frozenset(numbers)


def check_jobs(root: Table, jobs: tuple[Jobs, ...], streams: tuple[Stream, ...]) -> None:
    """Refuse a scenario without work, with too much of it, or with two jobs of one name."""
    if not jobs and not streams:
        root.refuse_all("the scenario has no jobs; add [[jobs]] or [[streams]]")
    expected = sum(each.count for each in jobs)
    expected += int(sum(each.rate * (each.until - each.begin) for each in streams))
    if expected > JOBS_LIMIT:
        root.refuse_all(f"the scenario has about {expected} jobs, more than {JOBS_LIMIT}")
    seen: set[str] = set()
    tables = [*root.tables("jobs"), *root.tables("streams")]
    ids = [*(each.id for each in jobs), *(each.id for each in streams)]
    for table, id_ in zip(tables, ids, strict=True):
        if id_ in seen:
            table.refuse("id", f"id {id_!r} is given twice; ids are unique")
        seen.add(id_)
    several = {each.id for each in jobs if each.count > 1} | {each.id for each in streams}
    for table, id_ in zip(tables, ids, strict=True):
        stem, _, number = id_.rpartition("-")
        if number.isdecimal() and stem in several:
            table.refuse("id", f"id {id_!r} is also made from {stem!r}; ids are unique")
