"""The state of fleets, read from the notes that their supervisors keep."""

from msgspec import json

from mulligan.core.fleets import FleetState, fleets, note_key

STATE = FleetState("news", "host-1", 7, 100.0, 90.0, "running", {})


def test_each_fleet_is_shown_under_its_host_and_name():
    notes = {note_key("host-1", "news"): json.encode(STATE)}
    assert fleets(notes) == {
        "host-1/news": {
            "name": "news",
            "host": "host-1",
            "pid": 7,
            "at": 100.0,
            "since": 90.0,
            "phase": "running",
            "kinds": {},
            "away": {},
        }
    }


def test_a_note_that_cannot_be_read_is_left_out():
    assert fleets({note_key("host-1", "news"): b'{"name":5}'}) == {}
