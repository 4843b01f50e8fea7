"""What every test may ask for: a clock that the test moves, and each store in turn."""

import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from mulligan.stores.contract import Store
from tests.reuse import REUSED, drop_all, reused_url
from tests.store_kit import STORES, VirtualClock, fresh_url, handle, require

pytest_plugins = ("tests.databases.plugin", "tests.contract.steps")

# The same examples everywhere, and none remembered: what passes here passes elsewhere. How long
# an example takes says how busy the machine is.
settings.register_profile(
    "mulligan",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mulligan")
# Hypothesis mixes in constants of our modules: of those that happen to be imported by then.
providers._get_local_constants = Constants

TESTS = Path(__file__).parent
SERVERS = ("redis", "postgres", "mongo")
# Tests that drive whole systems, for long or through faults: `make prove` runs them. What they
# reach is covered by the others, so their coverage is not measured.
PROOFS = (
    *(
        "beside/",
        "bridge/test_real.py",
        "browser/",
        "chaos/test_chaos.py",
        "chaos/test_shared.py",
        "cli/test_encodings.py",
    ),
    *("cli/test_health.py", "collateral/"),
    *("dst/test_same_seed.py", "dst/test_zoo.py", "examples/", "failover/", "failpoints/test_"),
    *("hostile/test_unknown_tasks.py", "lessons/test_batches.py", "lessons/test_blocked.py"),
    *("lessons/test_killed.py", "lessons/test_restarts.py", "reading/"),
    *("resources/", "security/test_canary.py", "server/test_clients.py"),
    *("server/test_connections.py", "server/test_whatever_is_allowed.py"),
    *("sim/test_bounds.py", "sim/test_docs.py", "sim/test_real_run.py"),
    *("stores/redis/test_failover.py",),
    *("supervisor/test_command.py", "supervisor/test_fleet_at_work.py"),
    *("tracing/test_processes.py", "typing/"),
)
# Tests that take long on servers, and there are proofs too; memory and SQLite have them every time.
LONG_ON_SERVERS = (
    *("app/test_wait.py", "django/"),
    *("contract/test_names.py", "doors/test_same_job.py", "engine/test_chains_on_every_store.py"),
    *("engine/test_known_tasks.py", "engine/test_on_every_store.py", "hostile/"),
    *("plugin/test_plugin.py", "pools/test_steps.py", "security/test_running_data.py"),
    *("server/test_on_every_store.py",),
)
# Tests that start processes or another program such as mypy, or wait in real time: `make test-fast`
# leaves them out.
SLOW = (
    *("cli/test_copy.py", "cli/test_demo.py", "cli/test_encodings.py", "cli/test_environment.py"),
    *(
        "cli/test_health.py",
        "cli/test_logs.py",
        "cli/test_process_group.py",
        "cli/test_top.py",
        "cli/test_worker.py",
    ),
    *("django/test_command.py", "django/test_stranger.py"),
    *("dst/test_seeds.py", "engine/test_known_tasks.py", "engine/test_on_every_store.py"),
    *("engine/test_transactional_sink.py", "engine/test_worker.py", "hostile/test_newer_stores.py"),
    *("hostile/test_stored_bodies.py", "plugin/test_plugin.py", "plugin/test_stranger.py"),
    *("pools/", "security/test_running_data.py"),
    *("security/test_source.py", "server/test_on_every_store.py", "server/test_serve.py"),
    *("sim/test_run.py", "stores/redis/test_failover.py"),
    *("web/test_examples.py", "web/test_stranger.py"),
)

# Tests that run long stretches of the code that others reach: their coverage is not measured.
UNMEASURED = (
    *("dst/", "hostile/test_decoders.py", "sim/test_command.py", "sim/test_fuzzing.py"),
    *("sim/test_run.py", "test_docs.py"),
)

# pymongo leaves a connection that was being made to the collector when its maker is cancelled.
LEFT_TO_THE_COLLECTOR = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C mean to the processes under test what it means at a terminal.

    A shell has what it starts in the background ignore it, and so would theirs. Coverage is
    measured in the processes of the tests, and not in those that tests start. What a process
    prints is buffered, as it is wherever nobody has said otherwise.
    """
    os.environ.pop("PYTHONUNBUFFERED", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


def pytest_sessionfinish() -> None:
    """Remove the stores that tests shared, and save what was measured.

    After this hook pytest-xdist gives a test process ten seconds to exit before it kills it, which
    is too short on a busy machine. Coverage is otherwise saved at exit, and would be lost.
    """
    drop_all()
    if measured := Coverage.current():
        measured.save()


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark what `make prove` runs, and let a driver's habit not fail the tests of its store."""
    for item in items:
        path = str(item.path.relative_to(TESTS))
        on_server = any(server in item.name for server in SERVERS)
        if path.startswith(PROOFS) or (on_server and path.startswith(LONG_ON_SERVERS)):
            item.add_marker("prove")
        if path.startswith(SLOW):
            item.add_marker("slow")
        if "mongo" in item.name:
            item.add_marker(LEFT_TO_THE_COLLECTOR)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage where a test only repeats what others have reached."""
    measured = Coverage.current()
    if measured is None or not is_repeated(item):
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        measured.start()


def is_repeated(item: pytest.Item) -> bool:
    """Whether it runs what others run: the same test on a server, or a long stretch of it all."""
    path = str(item.path.relative_to(TESTS))
    return path.startswith(UNMEASURED) or any(f"[{name}" in item.name for name in SERVERS)


@pytest.fixture
def clock() -> VirtualClock:
    """The time in the store; it passes only when the test says so."""
    return VirtualClock()


@pytest.fixture(params=STORES)
async def store_url(request, tmp_path) -> AsyncIterator[str]:
    """The URL of an empty store, of each engine in turn; new if the test opens it itself."""
    require(request.param)
    reuse = "store" in request.fixturenames and request.param in REUSED
    with_url = reused_url(request.param) if reuse else fresh_url(request.param, tmp_path)
    async with with_url as url:
        yield url


@pytest.fixture
async def store(store_url, clock) -> AsyncIterator[Store]:
    """An open, empty store, of each engine in turn, on the virtual clock."""
    async with handle(store_url, clock) as opened:
        yield opened


@pytest.fixture
async def another(store, store_url, clock) -> AsyncIterator[Store]:
    """A second handle on the data of `store`, as another process has it."""
    if store_url.startswith("memory:"):
        yield store
        return
    async with handle(store_url, clock) as opened:
        yield opened
