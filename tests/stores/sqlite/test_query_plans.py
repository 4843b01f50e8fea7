"""How SQLite carries out the statements: which index each uses."""

import re

import pytest

from tests.stores.sqlite.kit import explain

IN_LANE = "lane USING PRIMARY KEY (queue=? AND scope=? AND lane_priority=?"
TABLES = "job|lane|held|line|fairness_key|running|ended|attempt|permit|note"


@pytest.mark.parametrize(
    ("room", "name", "index"),
    [
        ("lanes", "heads", f"{IN_LANE})"),
        ("lanes", "rows", "lane_priority=? AND (due,sequence)>(?,?) AND due<?)"),
        ("lanes", "lease", "lane_priority=? AND (due,sequence)>(?,?) AND (due,sequence)<(?,?))"),
        ("lanes", "take", "lane_priority=? AND (due,sequence)>(?,?) AND (due,sequence)<(?,?))"),
        ("row_writer", "leave_lane", "lane_priority=? AND due=? AND sequence=?)"),
        ("lines", "first_of", "held_line"),
        (
            "lines",
            "next_lane",
            "line USING PRIMARY KEY ((queue,scope,lane_priority,key)>(?,?,?,?))",
        ),
        ("lines", "next_lane", "fairness_key USING PRIMARY KEY ((queue,scope,lane_priority,key)>("),
        (
            "lines",
            "next_lane_at",
            "line_waiting (waits_for=? AND (queue,scope,lane_priority,turn)>",
        ),
        ("lines", "forget_past", "fairness_key_idle"),
        (
            "lines",
            "is_fair",
            "line USING PRIMARY KEY (queue=? AND scope=? AND lane_priority=? AND key>",
        ),
        ("lines", "is_fair", "fairness_key_turn"),
        ("lines", "is_fair", "fairness_key_later"),
        ("runs", "line", "held_line"),
        ("runs", "keys", "fairness_key_turn"),
        ("lines", "first_waiting", "line_waiting"),
        ("lines", "first_key", "fairness_key_turn"),
        ("workers", "next_holder", "running_worker"),
        ("operate", "expired", "lane_expires"),
        ("operate", "expired", "held_expires"),
        ("read", "ended_group", "ended_queue (queue=? AND status>?)"),
        ("read", "ended_group", "ended_queue (queue>?)"),
        ("read", "next_lane", f"{IN_LANE.removesuffix('=?')}>?)"),
        ("read", "next_lane", "lane USING PRIMARY KEY (queue=? AND scope>?)"),
        ("read", "next_lane", "lane USING PRIMARY KEY (queue>?)"),
        ("read", "lane_times", f"{IN_LANE} AND due>?)"),
        ("operate", "prune", "ended_queue"),
        ("rows", "holders", "job_unique"),
        (
            "read",
            "depth",
            f"{IN_LANE} AND due<?)",
        ),
        ("read", "history", "attempt_job"),
        ("row_writer", "trim_attempts", "attempt_job"),
        ("limits", "permits_of", "permit_job"),
        ("operate", "prune_notes", "note_until"),
    ],
)
def test_a_query_uses_its_index_and_sorts_nothing(db, room, name, index):
    plan = explain(db, room, name)
    assert index in plan
    assert not re.search(rf"SCAN ({TABLES})\b(?! USING)", plan), plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    ("name", "of_key", "of_line"),
    [
        ("first_ready", "PRIMARY KEY", "line_ready"),
        ("ready_after", "PRIMARY KEY", "line_ready"),
        ("first_later", "INDEX fairness_key_later", "line_later"),
    ],
)
def test_the_first_line_in_a_stage_is_one_of_few(db, name, of_key, of_line):
    plan = explain(db, "lines", name)
    assert f"fairness_key USING {of_key} (queue=? AND scope=? AND lane_priority=?" in plan
    assert f"line USING INDEX {of_line} (queue=? AND scope=? AND lane_priority=?" in plan
    assert plan.count("TEMP B-TREE") <= 1, plan


def test_the_last_job_of_a_lane_is_one_of_two(db):
    plan = explain(db, "read", "tail")
    assert f"{IN_LANE} AND due<?)" in plan
    assert "held USING INDEX held_due (queue=? AND scope=? AND lane_priority=? AND due<?)" in plan
    assert plan.count("TEMP B-TREE") == 1, plan


@pytest.mark.parametrize(("room", "name"), [("workers", "held_by"), ("workers", "held_rows")])
def test_of_the_running_jobs_only_those_of_the_worker_are_looked_at(db, room, name):
    assert "SEARCH running USING INDEX running_worker (worker=?)" in explain(db, room, name)


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("commit", "done_if_held"),
        ("rows", "read"),
        ("transaction", "leave_running"),
        ("read", "get"),
    ],
)
def test_jobs_are_found_by_key(db, room, name):
    plan = explain(db, room, name)
    assert re.search(r"SEARCH (job|running) USING I(NTEGER PRIMARY KEY|NDEX sqlite_auto)", plan)
    assert not re.search(rf"SCAN ({TABLES})\b(?! USING)", plan), plan


@pytest.mark.parametrize(
    ("room", "name", "index"),
    [
        ("read", "lanes", "SCAN lane"),
        ("read", "all_ended", "USING COVERING INDEX ended_queue"),
        ("read", "ended_in_group", "USING COVERING INDEX ended_queue"),
        ("read", "delayed", "USING COVERING INDEX lane_delayed"),
        ("read", "held", "USING COVERING INDEX held_line"),
        ("read", "gathering", "USING COVERING INDEX held_line"),
    ],
)
def test_counts_read_no_bodies(db, room, name, index):
    plan = explain(db, room, name)
    assert index in plan
    assert " job " not in plan


def test_the_health_of_a_region_is_read_from_its_recent_attempts_alone(db):
    plan = explain(db, "operate", "attempts")
    assert plan.endswith("PRIMARY KEY (queue=? AND region=? AND name=? AND slot>?)")


@pytest.mark.parametrize(("room", "name"), [("read", "arrivals"), ("rows", "delete_arrivals")])
def test_arrivals_are_found_by_their_job(db, room, name):
    found = r"SEARCH arrival USING (COVERING )?INDEX sqlite_autoindex_arrival_1 \(job=\?\)"
    assert re.search(found, explain(db, room, name))


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("read", "records"),
        ("row_writer", "trim_log"),
        *(("rows", name) for name in ("recorded", "delete_records", "delete_all_records")),
    ],
)
def test_records_are_found_by_their_job(db, room, name):
    found = r"SEARCH recorded USING (COVERING )?INDEX sqlite_autoindex_recorded_1 \(job=\?"
    assert re.search(found, explain(db, room, name))


def test_notes_are_found_without_reading_the_others(db):
    assert explain(db, "operate", "list_notes") == "SEARCH note USING PRIMARY KEY (key>?)"
