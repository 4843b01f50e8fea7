"""What is done about a kind: bounds that hold for every state, and one rule at a time."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mulligan.supervisor.decide import Drain, Pace, Replace, SlotView, Start, decide
from mulligan.supervisor.fleet import Kind

LONG = Pace(1e9, 1e9)
KIND = Kind("k", app="a:b", min=0, max_concurrent=3, cooldown=0.0)


@st.composite
def states(draw) -> tuple[Kind, list[SlotView], int]:
    most = draw(st.integers(1, 6))
    kind = Kind(
        "k",
        command=draw(st.sampled_from([(), ("sleep", "1")])),
        min=draw(st.integers(0, most)),
        max_concurrent=most,
        cooldown=draw(st.sampled_from([0.0, 5.0])),
        max_runtime=draw(st.none() | st.just(50.0)),
        memory_limit=draw(st.none() | st.just(100)),
    )
    slots = [
        SlotView(
            number + 1,
            draw(st.sampled_from(["empty", "starting", "running", "draining", "resting"])),
            draw(st.floats(0, 100)),
            draw(st.integers(0, 200)),
            outdated=draw(st.booleans()),
            rest=draw(st.floats(-5, 5)),
            kept=draw(st.booleans()),
        )
        for number in range(most + draw(st.integers(0, 2)))
    ]
    return kind, slots, draw(st.integers(kind.min, most))


def alive(slots: Sequence[SlotView]) -> list[int]:
    return [slot.number for slot in slots if slot.phase in ("starting", "running")]


@given(states(), st.floats(0, 100), st.floats(0, 100))
def test_what_is_done_is_possible_and_never_too_much(state, since, surplus):
    kind, slots, wanted = state
    actions = decide(kind, slots, wanted, Pace(since, surplus))
    starts = {action.number for action in actions if isinstance(action, Start)}
    ends = {action.number for action in actions if not isinstance(action, Start)}
    assert len(starts) + len(ends) == len(actions), "one thing for a slot"
    fillable = {s.number for s in slots if s.phase in ("empty", "resting")}
    assert starts <= fillable
    assert ends <= set(alive(slots))
    occupied = len(slots) - len(fillable)
    assert not starts or occupied + len(starts) <= kind.max_concurrent
    # one more than are wanted, if it is to succeed one that is worn
    worn = any(s.outdated or kind.max_runtime is not None for s in slots if s.phase == "running")
    assert not starts or len(alive(slots)) - len(ends) + len(starts) <= wanted + worn
    assert not (starts and worn and len(alive(slots)) > wanted)
    assert sum(action.kept for action in actions if isinstance(action, Start)) <= kind.min
    if kind.cooldown:
        assert len(starts) <= (since >= kind.cooldown)


@given(states())
def test_what_rests_is_not_started_before_its_time(state):
    kind, slots, wanted = state
    resting = {slot.number for slot in slots if slot.phase == "resting" and slot.rest > 0}
    assert not resting & {
        a.number for a in decide(kind, slots, wanted, LONG) if isinstance(a, Start)
    }


def running(number: int, **fields) -> SlotView:
    return SlotView(number, "running", **fields)


EMPTY = [SlotView(n, "empty") for n in (1, 2, 3)]


def test_the_lowest_slots_are_filled_first():
    assert decide(KIND, EMPTY, 2, LONG) == [Start(1), Start(2)]
    assert decide(KIND, [running(1), *EMPTY[1:]], 3, LONG) == [Start(2), Start(3)]


def test_a_cooldown_spaces_the_starts():
    slow = replace(KIND, cooldown=10.0)
    assert decide(slow, EMPTY, 3, Pace(9.0)) == []
    assert decide(slow, EMPTY, 3, Pace(10.0)) == [Start(1)]


def test_a_slot_that_rests_is_waited_for_and_not_passed_over():
    slots = [SlotView(1, "resting", rest=3.0), *EMPTY[1:]]
    assert decide(KIND, slots, 1, LONG) == []
    assert decide(KIND, slots, 2, LONG) == [Start(2)]
    assert decide(KIND, [SlotView(1, "resting", rest=0.0), *EMPTY[1:]], 1, LONG) == [Start(1)]


def test_a_draining_process_counts_as_there_and_not_as_working():
    slots = [SlotView(1, "draining"), *EMPTY[1:]]
    assert decide(KIND, slots, 1, LONG) == [Start(2)]
    assert decide(replace(KIND, max_concurrent=1), slots[:1], 1, LONG) == []


def test_the_outdated_are_replaced_one_at_a_time_while_all_the_others_are_well():
    old = [running(1, outdated=True), running(2, outdated=True)]
    one = [Replace(1, "the fleet file changed")]
    full = replace(KIND, max_concurrent=2)
    assert decide(full, old, 2, LONG)[:1] == one
    assert not [a for a in decide(KIND, old, 3, LONG) if isinstance(a, Replace)]
    for phase in ("starting", "draining"):
        assert decide(KIND, [*old, SlotView(3, phase)], 2, LONG) == []


def test_the_old_are_replaced_one_at_a_time():
    kind = replace(KIND, max_runtime=60.0)
    slots = [running(1, age=59.0), running(2, age=61.0), running(3, age=62.0)]
    assert decide(kind, slots, 3, LONG) == [Replace(2, "max_runtime 60 s")]


def test_a_worn_process_is_told_to_go_when_its_successor_is_ready_where_there_is_room_for_both():
    kind = replace(KIND, min=1, max_runtime=60.0)
    old, empty = running(1, age=61.0, kept=True), EMPTY[1:]
    assert decide(kind, [old, *empty], 1, LONG) == [Start(2, kept=True)]
    started = SlotView(2, "starting", kept=True)
    assert decide(kind, [old, started, EMPTY[2]], 1, LONG) == []
    ready = running(2, kept=True)
    assert decide(kind, [old, ready, EMPTY[2]], 1, LONG) == [Replace(1, "max_runtime 60 s")]
    gone = [SlotView(1, "empty"), ready, EMPTY[2]]
    assert decide(kind, gone, 1, LONG) == []
    assert decide(kind, gone, 2, LONG) == [Start(1, kept=False)], "above min: it may end when idle"


def test_of_a_service_there_are_never_two():
    service = Kind("k", service=True, min=1, max_concurrent=2, max_runtime=60.0, cooldown=0.0)
    slots = [running(1, age=61.0, kept=True), SlotView(2, "empty")]
    assert Replace(1, "max_runtime 60 s") in decide(service, slots, 1, LONG)


def test_all_that_are_too_big_are_replaced_at_once():
    kind = replace(KIND, memory_limit=100 << 20)
    slots = [running(1, memory=200 << 20), running(2, memory=300 << 20), SlotView(3, "starting")]
    assert decide(kind, slots, 3, LONG) == [
        Replace(1, "memory 200 MiB over 100 MiB"),
        Replace(2, "memory 300 MiB over 100 MiB"),
    ]


def test_those_over_max_concurrent_are_drained_the_highest_first():
    slots = [running(n) for n in (1, 2, 3)]
    assert decide(replace(KIND, max_concurrent=1), slots, 1, Pace(1e9)) == [
        Drain(3, "max_concurrent is 1"),
        Drain(2, "max_concurrent is 1"),
    ]


def test_workers_that_are_not_needed_are_left_to_end_by_themselves():
    assert decide(KIND, [running(1), running(2)], 0, LONG) == []


def test_commands_that_are_not_needed_are_drained_after_a_while():
    kind = Kind("k", command=("x",), min=0, max_concurrent=3, idle_exit=60.0)
    slots = [running(1), running(2)]
    assert decide(kind, slots, 1, Pace(1e9, 59.0)) == []
    assert decide(kind, slots, 1, Pace(1e9, 60.0)) == [Drain(2, "not needed for 60 s")]
