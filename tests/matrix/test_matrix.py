"""What the matrix does besides running tests: choosing, counting, and writing its page."""

import tomllib
from pathlib import Path

import pytest

from tests.databases import Unavailable
from tests.matrix import page as pages
from tests.matrix.__main__ import summary
from tests.matrix.install import PROJECT, find_python, out_of_root, server
from tests.matrix.rows import NOT_RUN, ROWS, Row, chosen
from tests.matrix.run import counts, number, variables

GOOD = {
    "name": "Redis 6.2",
    "source": "PyPI",
    "at": "2026-11-16",
    "version": "6.2.14",
    "passed": 200,
    "failed": [],
    "skipped": 1,
    "seconds": 60,
}


def test_rows_are_chosen_by_words_of_their_names():
    assert chosen([]) == list(ROWS)
    names = [row.name for row in chosen(["redis", "SQL 13"])]
    assert names == ["PostgreSQL 13", "Redis 6.2", "Redis 7.0", "Redis 8.0"]
    with pytest.raises(ValueError, match="'oracle' is in no row's name; they are: Python"):
        chosen(["oracle"])


def test_each_claimed_version_has_a_row():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    claimed = {
        each.rpartition(" ")[2]
        for each in project["classifiers"]
        if each.startswith("Programming Language :: Python :: 3.")
    }
    assert {row.python for row in ROWS if row.name.startswith("Python")} == claimed
    assert project["requires-python"] == f">={min(claimed, key=lambda v: int(v[2:]))}"


def test_the_tests_of_every_row_are_there():
    for row in ROWS:
        for path in row.tests:
            assert not path.startswith("tests/") or (PROJECT / path).exists(), path


def test_a_row_of_a_server_uses_its_own_and_not_one_that_is_up(monkeypatch):
    monkeypatch.setenv("MULLIGAN_TEST_REDIS_URL", "redis://elsewhere")
    monkeypatch.setenv("MULLIGAN_TEST_POSTGRES_URL", "postgresql://elsewhere")
    monkeypatch.setenv("MULLIGAN_TEST_REDIS_SERVER", "another")
    row = Row("Redis 6.2", "PyPI", store="redis")
    given = variables(row, {"MULLIGAN_TEST_REDIS_SERVER": "mine"})
    assert given["MULLIGAN_TEST_REDIS_SERVER"] == "mine"
    assert "MULLIGAN_TEST_REDIS_URL" not in given
    assert given["MULLIGAN_TEST_POSTGRES_URL"] == "postgresql://elsewhere"
    assert "MULLIGAN_TEST_REDIS_SERVER" not in variables(row, {})
    assert server(Row("Python 3.11", "here")) == {}


def test_an_interpreter_that_is_not_there_is_named():
    with pytest.raises(Unavailable, match=r"there is no python3\.2"):
        find_python("3.2")


def test_a_program_of_another_root_runs_with_the_libraries_of_that_root(tmp_path):
    script = out_of_root(tmp_path / "sid", "redis-server")
    said = script.read_text()
    assert f"--library-path {tmp_path}/sid/usr/lib/x86_64-linux-gnu" in said
    assert said.endswith(f'{tmp_path}/sid/usr/bin/redis-server "$@"\n')


def test_tests_are_counted_and_those_that_failed_are_named(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="test_good"/>'
        '<testcase classname="tests.a" name="test_bad"><failure/></testcase>'
        '<testcase classname="tests.b" name="test_broken"><error/></testcase>'
        '<testcase classname="tests.b" name="test_left"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert counts(report) == (1, ["tests/a::test_bad", "tests/b::test_broken"], 1)
    assert number("postgres (PostgreSQL) 13.23") == "13.23"
    assert number("Redis server v=6.2.14 sha=40305114:0") == "6.2.14"


def test_a_result_takes_the_place_of_the_one_before_and_the_page_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(pages, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(pages, "PAGE", tmp_path / "versions.md")
    pages.keep(GOOD | {"failed": ["tests/a::test_bad"]})
    assert "- `tests/a::test_bad`" in (tmp_path / "versions.md").read_text()
    pages.keep(GOOD)
    pages.keep({"name": "Redis 8.0", "source": "Debian", "at": "today", "not_run": "no root"})
    said = (tmp_path / "versions.md").read_text()
    assert "| Redis 6.2 | 6.2.14 | 200 | 0 | 1 | PyPI | 2026-11-16 |" in said
    assert "test_bad" not in said
    assert "- Redis 8.0: no root." in said
    assert "- Python 3.11: not yet." in said
    assert all(name in said for name in NOT_RUN)
    assert summary(GOOD) == "Redis 6.2 (6.2.14): 200 passed, 0 failed, 1 skipped, 60 s"


def test_the_page_is_the_one_that_the_results_make():
    assert Path(pages.PAGE).read_text() == pages.page(pages.read())
