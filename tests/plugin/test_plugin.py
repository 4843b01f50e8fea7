"""The pytest plugin in projects of its users: real pytest, started in a folder of its own."""

import os
import re
import subprocess
import sys

import pytest

from mulligan.stores.shards import shard_urls
from tests.store_kit import STORES, require

pytest_plugins = ("pytester",)

APP = """
from mulligan import Delays, Mulligan, Retry

app = Mulligan("sqlite:///real.db")


@app.task(retry=Retry(3, Delays((3600,))))
async def ask(question: str, language: str = "en") -> str:
    if len(question) > TRIES.setdefault(question, 0):
        TRIES[question] = len(question)
        raise TimeoutError
    return question.upper()


@app.task(queue="mail")
def send(to: str, *, subject: str = "") -> str:
    return to


TRIES = {}
"""


@pytest.fixture
def project(pytester):
    """A project with an app, named in its ini file."""
    pytester.makepyfile(jobs=APP)
    pytester.makeini("[pytest]\nmulligan_app = jobs:app\npythonpath = .\n")
    return pytester


def run(project, *arguments, **environment):
    """pytest as its users run it, in a process of its own."""
    given = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    for name in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "COVERAGE_PROCESS_CONFIG"):
        given.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=project.path, env=given, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


TWICE = """
import pytest
from jobs import ask
from mulligan.testing import aassert_enqueued, assert_enqueued, assert_not_enqueued

{mark}

def test_plain(mulligan_test, mulligan_clock):
    job = ask.enqueue("ready?")
    assert_enqueued(ask, args=["ready?"])
    assert mulligan_clock.now == 0
    mulligan_clock.advance(60)
    assert (mulligan_clock.now, job.status) == (60, "pending")
    mulligan_test.drain()
    assert job.result() == "READY?"


async def test_coroutine(mulligan_test, mulligan_clock):
    assert mulligan_test.jobs() == []  # nothing is left of another test
    job = await ask.aenqueue("steady?")
    await aassert_enqueued(ask, args=["steady?"])
    await mulligan_clock.aadvance(60)
    assert mulligan_clock.now == 60
    await mulligan_test.adrain()
    assert await job.aresult() == "STEADY?"
"""


ANYIO = """pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        ("pytestmark = pytest.mark.asyncio", ("-p", "no:anyio")),
        (ANYIO, ("-p", "no:asyncio")),
    ],
    ids=["pytest-asyncio", "anyio"],
)
def test_plain_tests_and_coroutines_have_the_clock_whatever_runs_them(project, mark, options):
    project.makepyfile(test_it=TWICE.format(mark=mark))
    code, out = run(project, *options)
    assert code == 0, out
    assert "2 passed" in out
    assert not (project.path / "real.db").exists()


def test_options_of_testing_are_those_of_the_marker(project):
    project.makepyfile(
        test_it="""
        import pytest
        from jobs import ask

        @pytest.mark.mulligan(regions=("US", "EU"), seed=3)
        def test_regions(mulligan_test):
            job = ask.using(region="EU").enqueue("ready?")
            mulligan_test.drain()
            assert job.info().worker_region in ("US", "EU")
        """
    )
    code, out = run(project, "--strict-markers")
    assert code == 0, out


def test_fixtures_may_give_resources(pytester):
    pytester.makepyfile(
        test_it="""
        from typing import Annotated

        import pytest
        from mulligan import INJECTED, Mulligan, Resource

        @pytest.fixture
        def mulligan_app():
            app = Mulligan("memory://")

            @app.task
            def greet(*, name: Annotated[str, Resource("name")] = INJECTED) -> str:
                return name

            return app

        @pytest.fixture
        def mulligan_resources(tmp_path):
            return {"name": tmp_path.name}

        def test_fixture(mulligan_app, mulligan_test, tmp_path):
            assert mulligan_app.tasks["greet"].enqueue().result() == tmp_path.name

        @pytest.mark.mulligan(resources={"name": "marker"})
        def test_marker(mulligan_app, mulligan_test):
            assert mulligan_app.tasks["greet"].enqueue().result() == "marker"
        """
    )
    code, out = run(pytester)
    assert code == 0, out


def test_a_conftest_may_give_the_app_and_isolate_every_test(pytester):
    pytester.makepyfile(jobs=APP)
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def mulligan_app():
            from jobs import app
            return app

        @pytest.fixture(autouse=True)
        def isolated(mulligan_test):
            return mulligan_test
        """
    )
    pytester.makepyfile(
        test_it="""
        from jobs import send

        def test_one():
            send.enqueue("ada@example.org")
        """
    )
    code, out = run(pytester)
    assert code == 0, out
    assert not (pytester.path / "real.db").exists()


@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("", "no app is named; set mulligan_app = module:attribute in the ini file"),
        ("mulligan_app = jobs", "mulligan_app 'jobs' is not written module:attribute"),
        ("mulligan_app = jobs:ask", "'jobs:ask' is AsyncTask and not an app"),
        ("mulligan_app = jobs:none", "'jobs:none' is NoneType and not an app"),
        ("mulligan_app = jobs:app\nmulligan_store = mysql://x", "does not begin with one of"),
    ],
)
def test_mistakes_are_said_with_their_remedy(pytester, ini, words):
    pytester.makepyfile(jobs=APP, test_it="def test_it(mulligan_test): ...")
    pytester.makeini(f"[pytest]\npythonpath = .\n{ini}\n")
    code, out = run(pytester)
    assert code == 1
    assert words in " ".join(out.split()), out


ON_A_STORE = """
import pytest
from jobs import app, ask, send
from mulligan.testing import assert_enqueued

{mark}
def test_it(mulligan_test, mulligan_store):
    job = send.enqueue("ada@example.org")
    assert_enqueued(send, args=["ada@example.org"], count=1)
    assert job.status == "pending"  # workers run while drain does
    assert mulligan_test.drain() >= 0
    assert job.result(timeout=5) == "ada@example.org"
    print("store", mulligan_store.partition(":")[0], "place", mulligan_store)
    assert app.url == ("sqlite:///real.db" if mulligan_store == "memory://" else mulligan_store)


{mark}
async def test_coroutine(mulligan_test):
    assert mulligan_test.jobs() == []
    job = await send.aenqueue("ada@example.org")
    await mulligan_test.adrain()
    assert await job.aresult() == "ada@example.org"
"""


def server_of(name: str) -> str:
    require(name)
    return {"memory": "memory://", "sqlite": "sqlite://"}.get(
        name, os.environ.get(f"MULLIGAN_TEST_{name.upper()}_URL", "")
    )


@pytest.mark.parametrize("name", STORES)
def test_a_test_runs_in_a_place_of_its_own_on_every_store(project, name):
    url = server_of(name)
    project.makepyfile(test_it=ON_A_STORE.format(mark="@pytest.mark.mulligan_store('$STORE')"))
    code, out = run(project, "-s", "-o", "asyncio_mode=auto", STORE=url)
    assert code == 0, out
    assert f"store {url.partition(':')[0]} place" in out
    marks = re.findall(r"place .*(test_[0-9a-f]{12})", out)
    assert len(marks) == (name != "memory")
    assert [place for place in places(name, url) if any(mark in place for mark in marks)] == []


def places(name: str, url: str) -> list[str]:
    """What is named as tests name it, in the store."""
    if name == "redis":
        import redis  # noqa: PLC0415 - a driver is needed only where its server is

        with redis.Redis.from_url(url, decode_responses=True) as client:
            return list(client.scan_iter("{test_*"))
    if name == "postgres":
        import psycopg  # noqa: PLC0415

        named = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'test%'"
        with psycopg.connect(url) as connection:
            return [row[0] for row in connection.execute(named)]
    if name == "mongo":
        import pymongo  # noqa: PLC0415

        mongo: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(url)
        with mongo:
            return [each for each in mongo.list_database_names() if "_test_" in each]
    return []


@pytest.mark.parametrize("way", ["option", "environment", "ini"])
def test_the_store_may_be_named_for_all_tests(project, way):
    project.makepyfile(test_it=ON_A_STORE.format(mark=""))
    options = {"option": ["--mulligan-store=sqlite://"], "ini": ["-o", "mulligan_store=sqlite://"]}
    environment = {"MULLIGAN_TEST_STORE": "sqlite://"} if way == "environment" else {}
    given = ["-s", "-o", "asyncio_mode=auto", *options.get(way, ())]
    code, out = run(project, *given, **environment)
    assert code == 0, out
    assert "store sqlite place" in out


def test_a_marker_with_several_stores_runs_a_test_on_each(project):
    mark = "@pytest.mark.mulligan_store('memory://', 'sqlite://', '$NO_SUCH_STORE')"
    project.makepyfile(test_it=ON_A_STORE.format(mark=mark))
    code, out = run(project, "-rs", "-v", "-o", "asyncio_mode=auto")
    assert code == 0, out
    assert "test_it[memory] PASSED" in out
    assert "test_it[sqlite] PASSED" in out
    assert "the environment has no NO_SUCH_STORE" in out
    assert "4 passed, 2 skipped" in out


@pytest.mark.parametrize("url", ["sqlite:///one.db?shards=2", "sqlite:///one.db sqlite:///two.db"])
def test_each_shard_of_an_app_has_a_place_of_its_own(project, url):
    project.makepyfile(test_it=ON_A_STORE.format(mark=""))
    code, out = run(project, "-s", "-o", "asyncio_mode=auto", f"--mulligan-store={url}")
    assert code == 0, out
    [place] = [line.split("place ")[1] for line in out.splitlines() if "place sqlite" in line]
    assert "one.db" not in place
    assert len(shard_urls(place)) == 2


def test_a_real_store_has_no_virtual_clock(project):
    project.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.mulligan_store("sqlite://")
        def test_clock(mulligan_clock): ...

        @pytest.mark.mulligan_store("sqlite://")
        def test_advance(mulligan_test):
            mulligan_test.advance(60)

        @pytest.mark.mulligan(seed=3)
        @pytest.mark.mulligan_store("sqlite://")
        def test_seed(mulligan_test): ...
        """
    )
    code, out = run(project)
    assert code == 1
    said = " ".join(out.split())
    assert "has no virtual clock; run it in memory, without a store" in said
    assert "seed must not be given for sqlite:///" in said
    assert "1 failed, 2 errors" in out


def test_drain_says_what_a_job_waits_for_on_a_real_store(project):
    project.makepyfile(
        test_it="""
        import pytest
        from jobs import ask

        @pytest.mark.mulligan_store("sqlite://")
        def test_late(mulligan_test):
            ask.using(delay=600).enqueue("ready?")
            mulligan_test.drain(within=0.2)
        """
    )
    code, out = run(project)
    assert code == 1
    assert "has not ended after 0.2 s: " in out


UNUSED = """
import sys

def test_nothing_of_mulligan_is_imported():
    loaded = [name for name in sys.modules if name.partition(".")[0] in ("mulligan", "msgspec")]
    assert loaded == []
    assert "pytest_mulligan" in sys.modules
"""


def test_a_project_that_does_not_use_it_does_not_pay_for_it(pytester):
    pytester.makepyfile(test_it=UNUSED)
    code, out = run(pytester, "-p", "no:asyncio", "-p", "no:anyio", "-W", "error")
    assert code == 0, out
    assert "1 passed" in out


def test_the_fixtures_say_what_they_are_for(project):
    _, out = run(project, "--fixtures", "-v")
    for name in ("mulligan_app", "mulligan_test", "mulligan_clock", "mulligan_store"):
        assert name in out
    _, out = run(project, "--help")
    assert "--mulligan-store" in out
