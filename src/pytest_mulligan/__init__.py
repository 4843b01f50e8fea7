"""pytest fixtures for apps of mulligan: a virtual clock, and a store of the test's own.

pytest imports this module in every project of an environment that has mulligan. So it stands beside
the package, and imports nothing of it before a test asks for a fixture.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mulligan import Mulligan
    from mulligan.testing import StoreTesting, Testing

STORE_VARIABLE = "MULLIGAN_TEST_STORE"
NO_APP = (
    "no app is named; set mulligan_app = module:attribute in the ini file, or define a fixture"
    " mulligan_app that returns it"
)
MARKERS = (
    "mulligan(**options): options of app.testing() for mulligan_test, as regions=('US', 'EU')",
    "mulligan_store(*urls): run on a scratch store in each of these; $NAME is a variable",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the app and the store be named."""
    group = parser.getgroup("mulligan")
    group.addoption(
        "--mulligan-store",
        metavar="URL",
        help="a store in which each test that asks for mulligan_test has a part of its own;"
        f" also {STORE_VARIABLE}, or mulligan_store in the ini file",
    )
    parser.addini("mulligan_app", "the app under test, as module:attribute")
    parser.addini("mulligan_store", "as --mulligan-store")


def pytest_configure(config: pytest.Config) -> None:
    """Say which markers there are."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each store that its marker names."""
    if "mulligan_store" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("mulligan_store")
    if marker is not None and marker.args:
        names = [url.lstrip("$").partition(":")[0] for url in marker.args]
        metafunc.parametrize("mulligan_store", marker.args, ids=names, indirect=True)


@pytest.fixture
def mulligan_app(request: pytest.FixtureRequest) -> "Mulligan":
    """The app under test: that of `mulligan_app` in the ini file; a conftest may give another."""
    name = request.config.getini("mulligan_app")
    if not name:
        raise pytest.UsageError(NO_APP)
    from mulligan.testing.named import named_app  # noqa: PLC0415 - only who asks for it pays

    return named_app(name)


@pytest.fixture
def mulligan_store(request: pytest.FixtureRequest, tmp_path: "Path") -> Iterator[str]:
    """The URL of an empty store of the test's own, which is removed afterwards.

    In memory, unless a marker, an option, the environment or the ini file names another.
    """
    from mulligan.testing.scratch import scratch_url  # noqa: PLC0415 - as above

    with scratch_url(store_of(request), tmp_path) as url:
        yield url


@pytest.fixture
def mulligan_resources() -> "Mapping[str, Any] | None":
    """Resources in place of the app's lifespan; a conftest may make them of other fixtures."""
    return None


@pytest.fixture
def mulligan_test(
    request: pytest.FixtureRequest,
    mulligan_app: "Mulligan",
    mulligan_store: str,
    mulligan_resources: "Mapping[str, Any] | None",
) -> Iterator["Testing | StoreTesting"]:
    """The app in a store of the test's own: on the virtual clock in memory, else in real time.

    It is what `with app.testing() as t` gives; options are those of the marker `mulligan`. Plain
    tests and coroutines may both ask for it.
    """
    marker = request.node.get_closest_marker("mulligan")
    options: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    options.setdefault("resources", mulligan_resources)
    from mulligan.testing import StoreTesting  # noqa: PLC0415 - as above

    if mulligan_store.startswith("memory:"):
        with mulligan_app.testing(**options) as virtual:
            yield virtual
    else:
        with StoreTesting(mulligan_app, mulligan_store, **options) as real:
            yield real


@pytest.fixture
def mulligan_clock(mulligan_test: Any) -> Any:
    """The virtual clock of the test: `now`, `advance(seconds)`, `await aadvance(seconds)`."""
    from mulligan.testing.named import Clock  # noqa: PLC0415 - as above

    return Clock(mulligan_test)


def store_of(request: pytest.FixtureRequest) -> str:
    """The URL that the marker, the option, the environment or the ini file says."""
    named: str | None = getattr(request, "param", None)
    if named is not None and named.startswith("$"):
        found = os.environ.get(named[1:])
        if not found:
            pytest.skip(f"store {named}: the environment has no {named[1:]}")
        return found
    config = request.config
    return (
        named
        or config.getoption("--mulligan-store")
        or os.environ.get(STORE_VARIABLE)
        or config.getini("mulligan_store")
        or "memory://"
    )
