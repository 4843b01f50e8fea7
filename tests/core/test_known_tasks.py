"""Which tasks live workers know, who knew one last, and which names clash."""

from msgspec.json import encode
from msgspec.structs import replace

from mulligan.core.known_tasks import (
    LIVE_WITHIN,
    NO_SIGNATURE,
    Registration,
    Unknown,
    clashes,
    is_known,
    nobody_knows,
    read_declared,
    read_registrations,
    read_unknown,
    unknown_note,
)

MINE = Registration("ann", 1000.0, ("mail",), {"send": "(to: str)", "sign": "()"})
THEIRS = Registration("bob", 1000.0, ("mail", "post"), {"send": "(weight: int)", "weigh": "()"})
MET = Unknown("send", "mail", "a", 1000.0)


def test_workers_that_know_the_same_share_a_note():
    assert replace(MINE, worker="eve", at=5.0).note == MINE.note
    assert THEIRS.note != MINE.note
    assert replace(MINE, queues=("post",)).note != MINE.note


def test_what_was_registered_is_read_and_what_cannot_be_is_left_out():
    notes = {"knows:1": encode(MINE), "knows:2": b"{", "knows:3": b'{"worker": 1}'}
    assert read_registrations(notes) == [MINE]
    assert read_unknown({"unknown:1": encode(MET), "unknown:2": b"[]"}) == [MET]


def test_a_task_is_known_while_the_registration_is_renewed():
    assert is_known("sign", [MINE, THEIRS], 1000.0)
    assert not is_known("sign", [MINE], 1000.0 + LIVE_WITHIN)
    assert not is_known("sign", [replace(MINE, left=True)], 1000.0)
    assert not is_known("other", [MINE, THEIRS], 1000.0)


def test_who_knew_a_task_last_is_named():
    gone = [replace(MINE, left=True), replace(THEIRS, at=900.0)]
    assert nobody_knows(MET, gone, 1300.0) == (
        "no live worker knows task 'send'; worker ann knew it last, 5 min ago"
    )
    assert nobody_knows(MET, [MINE], 1001.0) is None


def test_a_task_that_nobody_ever_knew_is_said_to_be_so():
    assert nobody_knows(MET, [], 1001.0) == (
        "no live worker knows task 'send', and none has in the last 7 d"
    )


def test_tasks_of_any_name_are_noted():
    assert unknown_note("a\ud800") != unknown_note("b")


def test_one_name_with_two_signatures_clashes_where_a_queue_is_shared():
    [said] = clashes([THEIRS, MINE], 1001.0)
    assert said.startswith(
        "task 'send' is send(to: str) to worker ann and send(weight: int) to worker bob,"
        " and both serve queue mail; "
    )


def test_what_is_the_same_apart_or_gone_does_not_clash():
    assert clashes([MINE, replace(MINE, worker="eve")], 1001.0) == []
    assert clashes([replace(MINE, queues=("other",)), THEIRS], 1001.0) == []
    assert clashes([MINE, replace(THEIRS, left=True)], 1001.0) == []


def test_a_task_that_is_known_without_its_signature_clashes_with_none():
    unsaid = replace(THEIRS, tasks={"send": NO_SIGNATURE})
    assert clashes([MINE, unsaid], 1001.0) == []
    assert clashes([unsaid, replace(THEIRS, worker="cid")], 1001.0) == []


def test_a_clash_of_three_is_said_once():
    third = replace(THEIRS, worker="eve", tasks={"send": "()"})
    assert len(clashes([MINE, THEIRS, third], 1001.0)) == 1


def test_what_another_program_left_among_declared_schedules_is_left_out():
    assert read_declared({"a": b'["daily"]', "b": b"nonsense"}) == {"daily"}
