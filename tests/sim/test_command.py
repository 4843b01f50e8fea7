"""`mulligan simulate`: tables, JSON, charts and refusals."""

import sys
from xml.etree import ElementTree as ET

import pytest

from mulligan.sim import builtin_names
from tests.cli.command_line import good, good_json, refused, run

EVENTS = {
    "start",
    "done",
    "fail",
    "retry-due",
    "dead",
    "reclaimed",
    "breaker-open",
    "breaker-close",
}


def test_the_builtin_scenarios_are_listed():
    said = good("simulate", "--list")
    assert all(name in said for name in builtin_names())
    assert set(good_json("simulate", "--list")) == set(builtin_names())


def test_json_has_events_in_the_order_of_time_and_a_summary():
    found = good_json("simulate", "timeline-2")
    events = found["events"]
    assert events[3] == {
        "t": 32.0,
        "job": "A-q1",
        "region": "US",
        "event": "retry-due",
        "attempt": 2,
        "lane": "global-retry",
    }
    assert events[4] == events[3] | {"region": "EU", "event": "start"}
    assert {event["event"] for event in events} <= EVENTS
    assert [event["t"] for event in events] == sorted(event["t"] for event in events)
    assert found["policy"] == "retry-first"
    assert found["summary"] == {
        "jobs": 6,
        "done": 6,
        "failed": 0,
        "unfinished": 0,
        "attempts": 7,
        "retries": 1,
        "reclaimed": 0,
        "makespan": 180.0,
        "wait": {
            "fresh": {"p50": 60.0, "p99": 150.0, "max": 150.0},
            "retry": {"p50": 0.0, "p99": 0.0, "max": 0.0},
        },
        "cross_region_share": 1.0,
        "time_saved": {"total": 118.0, "mean": 118.0, "retries": 1},
        "starts_by_lane": {"fresh": 6, "global-retry": 1},
        "largest_retry_backlog": 0,
        "regions": {
            "US": {"attempts": 6, "failures": 1, "breaker": [], "outages": []},
            "EU": {"attempts": 1, "failures": 0, "breaker": [], "outages": []},
            "ASIA": {"attempts": 0, "failures": 0, "breaker": [], "outages": []},
        },
        "providers": {},
        "keys": None,
    }


def test_several_policies_give_a_list_a_table_and_one_chart(tmp_path):
    policies = ["--policy", "fifo", "--policy", "capped(2)"]
    runs = good_json("simulate", "timeline-6", *policies)
    assert [each["policy"] for each in runs] == ["fifo", "capped(2)"]
    picture = tmp_path / "chart.svg"
    said = good("simulate", "timeline-6", *policies, "--chart", str(picture))
    assert "fifo" in said
    assert "capped(2)" in said
    assert "attempts per second of machine time" in said
    ET.parse(picture)  # noqa: S314 - our own words


def test_a_small_run_shows_each_attempt_and_holding_may_be_said():
    assert "182" in good("simulate", "timeline-1")
    held = good_json("simulate", "timeline-1", "--hold")
    free = good_json("simulate", "timeline-1", "--no-hold")
    assert [e["t"] for e in held["events"] if e["event"] == "start"][1] == 32
    assert [e["t"] for e in free["events"] if e["event"] == "start"][1] == 30


def test_lost_and_unfinished_jobs_are_shown():
    assert "attempts lost and reclaimed" in good("simulate", "poison-job")
    assert "jobs unfinished" in good("simulate", "timeline-5")


def test_an_html_chart(tmp_path):
    good("simulate", "timeline-1", "--chart", str(tmp_path / "chart.html"))
    assert (tmp_path / "chart.html").read_text().startswith("<!doctype html>")


def test_a_png_chart(tmp_path):
    good("simulate", "timeline-1", "--chart", str(tmp_path / "chart.png"))
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_a_png_without_its_library_is_refused_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    told = refused(2, "simulate", "timeline-1", "--chart", str(tmp_path / "chart.png"))
    assert "pip install 'mulligan[chart]'" in told
    assert not (tmp_path / "chart.png").exists()


@pytest.mark.prove
def test_an_outage_shows_when_its_breaker_opened_and_closed():
    said = good("simulate", "regional-outage")
    assert "US: breaker opened, s" in said
    assert "US: last retry failed in its outage, s" in said
    assert "EU:" not in said
    events = good_json("simulate", "regional-outage")["events"]
    switches = [event for event in events if event["event"].startswith("breaker")]
    assert [event["event"] for event in switches] == ["breaker-open", "breaker-close"]
    assert {(event["job"], event["region"], event["lane"]) for event in switches} == {
        ("", "US", "")
    }


def test_refusals(tmp_path):
    assert "no scenario is named" in refused(2, "simulate")
    assert "neither a file nor one of" in refused(2, "simulate", "timeline-9")
    assert "No such file" in refused(2, "simulate", "none.toml")
    assert "must end in .svg, .html, .png" in refused(
        2, "simulate", "timeline-1", "--chart", "x.pdf"
    )
    away = str(tmp_path / "no" / "x.svg")
    assert "cannot be written" in refused(2, "simulate", "timeline-1", "--chart", away)
    assert "'best' is not one of" in refused(2, "simulate", "timeline-1", "--policy", "best")
    assert "two workers or more" in refused(2, "simulate", "timeline-1", "--policy", "separate")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[regions.US]\n[[jobs]]\nid = 'a'\nregion = 'EU'\nduration = 1\n", ":4: region 'EU'"),
        (b"seed = 1\n[regions.\n", ":2: this is not TOML"),
        (b"seed = 1\n# \xff\n", ":2: this is not TOML: it is not UTF-8"),
    ],
)
def test_a_bad_file_is_told_with_its_line(tmp_path, content, said):
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    told = refused(2, "simulate", str(file))
    assert said in told
    assert len(told.splitlines()) == 1


def test_names_are_completed():
    done = run("simulate", _MULLIGAN_COMPLETE="bash_complete", COMP_WORDS="mulligan simulate ret",
               COMP_CWORD="2")  # fmt: skip
    assert "retry-storm" in done.stdout


def test_limits_and_fairness_keys_are_compared_with_a_run_without():
    said = good("simulate", "provider-429", "--limits", "both")
    assert "calls refused by openai, of all" in said
    assert "without limits" in said
    text = good("simulate", "noisy-tenant", "--fairness", "off")
    assert "wait of other keys, max, s" in text
    assert "without fairness keys" in text
