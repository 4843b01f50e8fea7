"""Why a job is where it is, in one sentence."""

from typing import Any

from msgspec import Struct

from mulligan.core.checks import seconds, span
from mulligan.core.decide import policy_of
from mulligan.core.facts import Facts
from mulligan.core.fetch import Capped
from mulligan.core.flow import flow_of
from mulligan.core.job import NO_REASON, Job
from mulligan.core.lane import ANYWHERE, is_pinned, plain_region
from mulligan.core.limits import LimitView, costs_of
from mulligan.core.settings import AN_APP
from mulligan.core.signals import Fail
from mulligan.core.unique import waits_to_start
from mulligan.core.unserved import region_of, region_text, start_one

# The message of a failure of these types says what to do. A replay alone would fail again.
SAY_WHAT_TO_DO = frozenset(
    {"BadSignature", "InvalidRecord", "ResultNotJson", "ResultTooLarge", "Spent", "UnknownTask"}
)


class Surroundings(Struct, frozen=True):
    """What explains a job: the time, how many jobs are ahead, and how many workers could take it.

    `app` is the app's name in commands. `unknown` says that no live worker knows the task. `limits`
    are those that the job names, by their names. `stuck` says that all slots wait for other jobs.
    """

    now: float
    ahead: int
    facts: Facts
    live_workers: int
    app: str = AN_APP
    unknown: str | None = None
    limits: dict[str, LimitView] = {}
    stuck: str | None = None


def explain(job: Job, around: Surroundings) -> str:
    """Why the job is where it is: what it waits for, until when, and behind how many."""
    match job.status:
        case "done":
            done = f"Done{_ago(job.ended_at, around.now)}, at attempt {job.retry_count + 1}"
            return f"{done}{_kept(job, around.now)}."
        case "failed":
            return (
                f"Failed for good{_ago(job.ended_at, around.now)} at attempt"
                f" {job.retry_count + 1}: {_clause(job.last_failure_reason)}{_not_retried(job)}"
                f"{_replay(job)}."
            )
        case "cancelled":
            since = _ago(job.ended_at, around.now)
            return f"Cancelled{since}, {_until(job)}: {_clause(job.cancel_reason)}."
        case "processing":
            return _running(job, around) if job.queue else _unreadable(job)
        case _:
            return _waiting(job, around) if job.queue else _unreadable(job)


def _running(job: Job, around: Surroundings) -> str:
    attempt = f"Running attempt {job.retry_count + 1}"
    if job.worker is None:
        since = _ago(job.started_at, around.now)
        return f"{attempt} in another program" + (f", which took it{since}." if since else ".")
    since = span(around.now - (job.started_at or around.now))
    return f"{attempt} on worker {job.worker} in region {job.worker_region} since {since}."


def _not_retried(job: Job) -> str:
    """Why it has ended, if it failed with retries left."""
    policy = policy_of(job.body)
    if policy is None or policy.retry.spent(job.retry_count):
        return ""
    if (job.last_failure_reason or "").startswith(f"{Fail.__name__}:"):
        return "; it asked for no retry"
    classes: Any = (("only", policy.retry.on), ("never", policy.retry.never))
    said = [f"{word} {', '.join(names)}" for word, names in classes if names]
    return f"; its policy retries {' and '.join(said)}" if said else ""


def _replay(job: Job) -> str:
    """What a replay would do about the failure, where the failure does not say so itself."""
    kind = (job.last_failure_reason or "").partition(":")[0]
    if kind in SAY_WHAT_TO_DO:
        return ""
    if kind == "Timeout":
        return (
            "; a replay has the same timeout, which is stored with the job: if it is too short,"
            " enqueue the job again with a longer one"
        )
    remedies = {
        "MalformedError": "; correct its document, then replay it",
        "UnreadableJob": "; a replay would fail again: purge it, and enqueue the call again",
    }
    return remedies.get(kind, "; replay it to try again")


def _clause(reason: str | None) -> str:
    """A reason as the end of a clause; another program may have recorded none."""
    return (reason or NO_REASON).removesuffix(".")


def _until(job: Job) -> str:
    """How far a job had come: it ran if its last start is not before its last due time."""
    attempt = f"attempt {job.retry_count + 1}"
    if job.started_at is None or job.started_at < job.due:
        return f"before {attempt} had started"
    return f"while {attempt} ran"


def _unreadable(job: Job) -> str:
    reason = _clause(job.last_failure_reason)
    return f"Stored as {job.status}, but no worker can run it: {reason}."


def _waiting(job: Job, around: Surroundings) -> str:
    if job.queue in around.facts.paused:
        due = f", and it is due in {span(job.due - around.now)}" if job.due > around.now else ""
        return f"Waiting because queue {job.queue} is paused{due}; resume it to go on."
    if job.awaits:
        flow = flow_of(job.body)
        of = f" of {flow.members}" if flow is not None and flow.members else ""
        return f"Waiting for {job.awaits}{of} jobs {_gathered(job)}."
    if around.unknown is not None:
        return (
            f"Waiting because {around.unknown}; deploy a worker that does, or cancel the job"
            f" (mulligan cancel {job.id})."
        )
    return _in_line(job, around)


def _gathered(job: Job) -> str:
    """What a gathering job waits for, and what has failed so far."""
    failed, cancelled = job.members_failed, job.members_cancelled
    if job.return_exceptions:
        so_far = f"; {failed} failed and {cancelled} cancelled so far" if failed + cancelled else ""
        return f"to end, however they do{so_far}"
    if not failed:
        return (
            "whose results it gathers; those that failed arrive when they are replayed and succeed"
        )
    return (
        f"whose results it gathers, {failed} of which failed: it goes on when they are replayed and"
        f" succeed (mulligan gather {job.id} replay)"
    )


def _in_line(job: Job, around: Surroundings) -> str:
    lane = job.lane
    if job.due > around.now:
        what = _retry(job) if job.retry_count else _delayed(job, around.now)
        return f"{what} it is due in {span(job.due - around.now)}{_where(job)}."
    if not around.live_workers:
        region = region_of(lane)
        return (
            f"Waiting because no live worker serves queue {job.queue} in {region_text(region)};"
            f" {start_one(job.queue, region, around.app)}"
        )
    full = job.waits_for or _paused(around)
    if full is not None:
        return _at_limit(job, full, around)
    if around.stuck is not None:
        return f"Due since {span(around.now - job.due)}, and {around.stuck}."
    reasons = [f"{around.ahead} ahead of it in lane {lane.label}{_where(job)}"]
    probe_at = (
        None if lane.is_global else around.facts.next_probe_at(job.queue, plain_region(lane.scope))
    )
    if probe_at is not None:
        reasons.append(_probing(job, probe_at - around.now))
    settings = around.facts.queue(job.queue)
    if lane.is_retry and isinstance(settings.policy, Capped):
        reasons.append(f"at most {settings.policy.limit} retries of the queue run at a time")
    if lane.is_retry and settings.budget is not None:
        reasons.append("the queue's retry budget limits how many start")
    return f"Due since {span(around.now - job.due)}: {'; '.join(reasons)}."


def _paused(around: Surroundings) -> str | None:
    """A limit of the job that is paused, though no worker has tried to start the job since."""
    for name, view in around.limits.items():
        if view.paused_until is not None and view.paused_until > around.now:
            return name
    return None


def _at_limit(job: Job, name: str, around: Surroundings) -> str:
    """Which limit has no room, when it will have some, and how many are before it there."""
    view = around.limits.get(name)
    if view is None:
        return f"Waiting for limit {name!r}, which has no room now."
    allows = "" if view.in_force is None else f" ({view.in_force})"
    why = _room(view, dict(costs_of(job.limits)).get(name, 1), around.now)
    others = max(0, view.waiting - 1)
    before = min(around.ahead, others)
    if not others:
        who = "nobody else waits for it"
    elif not before:
        who = f"it is the first of the {view.waiting} that wait for it in lane {job.lane.label}"
    else:
        verb = "is" if before == 1 else "are"
        who = f"at most {before} of the {view.waiting} that wait for it {verb} before it"
    return f"Waiting for limit {name!r}{allows}, which {why}; {who}."


def _room(view: LimitView, cost: int, now: float) -> str:
    """Why a limit has no room for a job of this cost, and when it will have some."""
    if view.paused_until is not None and view.paused_until > now:
        return f"is paused for another {span(view.paused_until - now)}"
    if view.room_at is None:
        some = "the job that runs" if view.running == 1 else f"one of the {view.running} that run"
        return f"has room when {some} under it ends"
    limit = view.in_force
    if cost > 1 and limit is not None and limit.rate is not None:
        most = limit.burst or limit.rate
        left, needed = max(0, most - view.used), min(cost, most)
        if needed > left:
            per = seconds(limit.per)
            when = f"at most {span(per)}"
            if limit.burst is not None:
                when = span((view.used + needed - most) * per / limit.rate)
            return f"has room for {left} of its cost of {cost}, and for all of it in {when}"
    if view.room_at > now:
        return f"has room again in {span(view.room_at - now)}"
    return "has room for the next one"


def _retry(job: Job) -> str:
    """Which retry it waits for, and what failed before."""
    if job.last_failure_reason is None:
        return f"Waiting for retry {job.retry_count}, and no failure is recorded;"
    return f"Waiting for retry {job.retry_count} after: {_clause(job.last_failure_reason)};"


def _delayed(job: Job, now: float) -> str:
    """Why it waits before its first start."""
    if job.debounce_until is None or not waits_to_start(job):
        return "Delayed;"
    return (
        f"Debounced: another call with key {job.unique_key!r} takes its place, for"
        f" {span(job.debounce_until - now)} at most;"
    )


def _probing(job: Job, wait: float) -> str:
    """What an open breaker means: when its next probe may start, and who takes the rest."""
    when = f"the next in {span(wait)}" if wait > 0 else "the next is due"
    others = "" if job.lane.is_retry else "; healthy regions take the others"
    if is_pinned(job.scope):
        others = "; it is pinned, so no other region takes it"
    region = plain_region(job.scope)
    return f"the breaker of region {region} is open: it tries one job at a time, {when}{others}"


def _where(job: Job) -> str:
    if job.scope == ANYWHERE:
        return ", in any region"
    if job.scope.startswith("*-"):
        return f", in any region, at first not in {job.scope[2:]}"
    if job.scope.startswith("*+"):
        return f", in any region, at first in {job.scope[2:]}"
    if is_pinned(job.scope):
        return f", in region {plain_region(job.scope)} and never elsewhere: it is pinned"
    return f", in region {job.scope}"


def _ago(at: float | None, now: float) -> str:
    return "" if at is None else f" {span(now - at)} ago"


def _kept(job: Job, now: float) -> str:
    """For how long it is still kept, where it says so itself."""
    until = None if job.keep is None else job.kept_until(job.keep)
    return "" if until is None else f"; kept for another {span(max(until - now, 0.0))}"
