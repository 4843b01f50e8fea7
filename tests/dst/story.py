"""The story of a seed, for people."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mulligan.core.fetch import policy_text
from tests.dst.day import Day
from tests.dst.plan import drawn
from tests.history import AnyEvent, report
from tests.history.events import (
    Attempt,
    Beat,
    Claim,
    Commit,
    Fault,
    Leave,
    Operate,
    Prune,
    Reclaim,
    Report,
)
from tests.history.report import words

STYLES: dict[type, str] = {
    Fault: "bold red",
    Reclaim: "yellow",
    Operate: "magenta",
    Leave: "blue",
    Attempt: "dim",
    Claim: "cyan",
}


def tell(day: Day, console: Console, job: str | None = None) -> None:
    """The setting, what happened, and the verdict; with `job`, only what is about that one."""
    setting(day.seed, console)
    table = Table("time", "who", "what", box=None, pad_edge=False, header_style="bold")
    for event in day.events:
        if is_news(event) and (job is None or is_about(event, job)):
            style = "red" if refused(event) else STYLES.get(type(event), "")
            table.add_row(clock(event.began), event.process, Text(words(event, job), style))
    console.print(table)
    figures = f"{day.jobs} jobs, {day.attempts} attempts, {day.stale} stale commits refused"
    console.print(f"\n{figures}, {len(day.events)} events, {day.seconds:.2f} s of this machine")
    if day.violations:
        console.print(Text(f"\n{len(day.violations)} violations\n", "bold red"))
        console.print(Text(report(day.violations)))
    else:
        console.print(Text("every invariant holds", "bold green"))


def setting(seed: int, console: Console) -> None:
    """Who works where, and how."""
    plan = drawn(seed)
    settings = plan.settings
    console.print(Text(f"seed {seed}", "bold"), "of a calm day" if plan.calm else "")
    console.print(
        f"workers {', '.join(name for name, _ in plan.posts)}, {settings.concurrency} slots each;"
        f" lease {settings.lease:g} s, beat {settings.beat:g} s, latency {plan.latency:g} s"
    )
    for name, queue in plan.queues.items():
        budget = f", budget {queue.budget}" if queue.budget else ""
        console.print(f"queue {name}: {policy_text(queue.policy)}, grace {queue.grace} s{budget}")
    console.print()


def is_news(event: AnyEvent) -> bool:
    """Whether it is worth telling: most of what idle workers ask is not."""
    match event:
        case Claim() | Reclaim():
            return event.taken is None or bool(event.taken)
        case Beat():
            return event.lost is None or bool(event.lost)
        case Prune() | Report():
            return False
        case _:
            return True


def is_about(event: AnyEvent, job: str) -> bool:
    """Whether it says something about the job, or about the world that it lives in."""
    return isinstance(event, Fault) or job in mentioned(event)


def mentioned(event: AnyEvent) -> Iterable[str]:
    """The jobs that an event is about."""
    match event:
        case Claim() | Reclaim():
            return [taken.job for taken in event.taken or ()]
        case Commit():
            following = [new.id for ending in event.endings for new in ending.next]
            return [*(ending.job for ending in event.endings), *following]
        case Attempt():
            return [event.job]
        case Operate():
            return event.jobs
        case _:
            return [new.id for new in getattr(event, "jobs", ())]


def refused(event: AnyEvent) -> bool:
    """Whether an outcome in it was stale."""
    return isinstance(event, Commit) and "stale" in (event.verdicts or ())


def clock(seconds: float) -> str:
    """A moment of the day, and of the days after."""
    whole, hundredths = divmod(round(seconds * 100), 100)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{f'+{days}d ' if days else ''}{hour:02}:{minute:02}:{second:02}.{hundredths:02}"
