"""What workers tell of themselves, and what they are ordered to do."""

from mulligan.core.worker import (
    ABOUT,
    ORDER,
    WorkerAbout,
    encode_note,
    read_about,
    read_order,
)

TOLD = WorkerAbout("host", 4711, "shop:app", "3.13.1", "0.1.0", 50_000_000)


def test_what_a_worker_tells_is_read_by_its_id_and_what_cannot_be_read_is_left_out():
    notes = {f"{ABOUT}w:1": encode_note(TOLD), f"{ABOUT}w-2": b"of a later release"}
    assert read_about(notes) == {"w:1": TOLD}


def test_an_order_is_for_one_worker_and_an_unknown_one_is_none():
    notes = {f"{ORDER}w-1": encode_note("drain"), f"{ORDER}w-2": encode_note("dance")}
    assert read_order(notes, "w-1") == "drain"
    assert read_order(notes, "w-2") is None
    assert read_order(notes, "w") is None
