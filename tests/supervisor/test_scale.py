"""How many are wanted: bounds that hold for every load, and which jobs count."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.fetch import Capped
from mulligan.core.lane import Lane, Priority
from mulligan.core.stats import LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from mulligan.supervisor.fleet import SERVICE, Kind
from mulligan.supervisor.scale import Load, load_of, wanted

loads = st.builds(Load, st.integers(0, 10_000), st.floats(0, 1000), st.integers(0, 1000))


@st.composite
def kinds(draw) -> Kind:
    least = draw(st.integers(0, 20))
    most = draw(st.integers(max(1, least), 40))
    return Kind(
        "k", store="x", min=least, max_concurrent=most, slots=draw(st.integers(1, 100)),
        max_wait=draw(st.floats(0.1, 100)),
    )  # fmt: skip


@given(kinds(), st.none() | loads, st.integers(0, 50))
def test_the_number_is_between_min_and_max_concurrent(kind, load, alive):
    found = wanted(kind, load, alive)
    assert kind.min <= found.number <= kind.max_concurrent
    assert found.why


@given(kinds(), loads, st.integers(0, 50))
def test_every_job_that_waits_or_runs_has_a_slot_as_far_as_allowed(kind, load, alive):
    number = wanted(kind, load, alive).number
    assert number * kind.slots >= load.ready + load.busy or number == kind.max_concurrent


@given(kinds(), loads, st.integers(0, 50), st.integers(0, 1000))
def test_more_work_never_wants_fewer(kind, load, alive, more):
    before = wanted(kind, load, alive).number
    assert wanted(kind, load._replace(ready=load.ready + more), alive).number >= before
    assert wanted(kind, load._replace(busy=load.busy + more), alive).number >= before


@given(kinds(), st.integers(1, 1000), st.integers(0, 50))
def test_a_long_wait_wants_one_more_once_all_that_there_are_is_ready(kind, ready, alive):
    load = Load(ready, kind.max_wait * 2, 0)
    plain = max(kind.min, min(kind.max_concurrent, ceil(ready / kind.slots)))
    more = min(kind.max_concurrent, max(plain, alive + 1))
    assert wanted(kind, load, alive).number == more
    assert wanted(kind, load, alive, starting=1).number == plain


@given(kinds(), st.integers(0, 50))
def test_without_an_answer_what_runs_is_kept(kind, alive):
    number = wanted(kind, None, alive).number
    assert number == max(kind.min, min(kind.max_concurrent, alive))


@given(st.none() | loads, st.integers(0, 5))
def test_a_service_is_one_whatever_waits(load, alive):
    assert wanted(SERVICE, load, alive).number == 1


def test_it_says_why():
    kind = Kind("k", max_concurrent=4, slots=20)
    assert wanted(kind, Load(40, 12.3, 5), 1) == (3, "depth 40, oldest wait 12 s, 5 running")
    assert wanted(kind, Load(), 1) == (1, "depth 0; min")
    assert wanted(kind, Load(900), 1).why == "depth 900, oldest wait 0 s; max_concurrent"


FACTS = Facts(regions=(Region("EU", frozenset("q")), Region("US", frozenset("q"))))


def stats(*lanes: LaneStats, workers: tuple[WorkerView, ...] = ()) -> Stats:
    return Stats(100.0, list(lanes), {}, {}, {}, list(workers))


def line(scope: str, priority: int, ready: int = 1, due: float = 99.0, queue: str = "q"):
    return LaneStats(Lane(queue, scope, priority), ready, 5, due)


def depth(kind: Kind, *lanes: LaneStats, facts: Facts = FACTS) -> int:
    return load_of(kind, stats(*lanes), facts, frozenset()).ready


EU = Kind("k", serves=("q",), region="EU")


def test_its_own_region_and_any_region_count():
    assert depth(EU, line("EU", Priority.NORMAL, 3)) == 3
    assert depth(EU, line("*", Priority.NORMAL, 4), line("EU", Priority.URGENT, 5)) == 9
    assert depth(EU, line("US", Priority.NORMAL, 3)) == 0
    assert depth(EU, line("EU", Priority.NORMAL, 3, queue="other")) == 0


def test_global_retries_count_when_the_region_may_take_them():
    assert depth(EU, line("*", Priority.RETRY)) == 1
    assert depth(EU, line("*-US", Priority.RETRY)) == 1
    assert depth(EU, line("*-EU", Priority.RETRY)) == 0, "left to others for a grace"
    assert depth(EU, line("*-EU", Priority.RETRY, due=90.0)) == 1, "its grace is over"


def test_only_one_kind_of_job_counts_where_only_one_is_served():
    both = (line("EU", Priority.NORMAL, 3), line("EU", Priority.RETRY, 4))
    assert depth(replace(EU, only="fresh"), *both) == 3
    assert depth(replace(EU, only="retries"), *both) == 4


def test_a_paused_queue_has_no_depth():
    paused = Facts(regions=FACTS.regions, paused=frozenset({"q"}))
    assert depth(EU, line("EU", Priority.NORMAL, 3), facts=paused) == 0


def test_the_wait_is_that_of_the_oldest_and_delayed_jobs_do_not_wait():
    found = load_of(
        EU,
        stats(line("EU", Priority.NORMAL, due=40.0), line("*", Priority.RETRY, 0, due=10.0)),
        FACTS,
        frozenset(),
    )
    assert found == Load(1, 60.0, 0)


def test_of_what_a_budget_holds_back_no_more_counts_than_it_lets_start_and_its_wait_not_at_all():
    budget = QueueSettings(budget=Budget(limit=10, per=3600))
    facts = Facts(regions=FACTS.regions, queues={"q": budget})
    retries = (line("*", Priority.RETRY, 300, due=10.0), line("EU", Priority.RETRY, 8, due=10.0))
    fresh = line("EU", Priority.NORMAL, 3, due=95.0)
    assert load_of(EU, stats(*retries), facts, frozenset()) == Load(10, 0.0, 0)
    assert load_of(EU, stats(*retries, fresh), facts, frozenset()) == Load(13, 5.0, 0)
    assert load_of(EU, stats(*retries[1:]), facts, frozenset()).ready == 8
    kind = replace(EU, store="x", slots=5, min=0, max_concurrent=40)
    load = load_of(kind, stats(*retries), facts, frozenset())
    assert wanted(kind, load, 2).number == 2, "however long they have waited"


def test_of_what_a_cap_holds_back_no_more_counts_than_the_cap():
    facts = Facts(regions=FACTS.regions, queues={"q": QueueSettings(Capped(4))})
    assert load_of(EU, stats(line("*", Priority.RETRY, 9)), facts, frozenset()).ready == 4


def test_busy_are_the_jobs_of_its_own_live_workers():
    def view(id_: str, *, live: bool = True) -> WorkerView:
        return WorkerView(Worker(id_), 99.0, 0.0, live, 7)

    views = (view("host-1-a"), view("host-2-b", live=False), view("host-11-c"))
    found = load_of(EU, stats(workers=views), FACTS, frozenset({"host-1-", "host-2-"}))
    assert found.busy == 7
