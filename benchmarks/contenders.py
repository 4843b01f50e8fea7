"""Who takes part: each peer on each store it has, in the settings that its file states."""

from dataclasses import dataclass

BOTH = ("async", "plain")


@dataclass(frozen=True, slots=True)
class Contender:
    """One peer on one store in one setting.

    `rate` is roughly what it drains in a second here, so that all drains take about as long.
    `kinds` are the kinds of function that it runs: coroutines, plain functions or both. A setting
    that matters in some measures alone takes part in these `only`.
    """

    peer: str
    store: str
    rate: int
    variant: str = ""
    kinds: tuple[str, ...] = BOTH
    bulk: bool = True
    node: bool = False
    only: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As tables show it."""
        label = {"graphile": "graphile-worker"}.get(self.peer, self.peer)
        return f"{label} ({self.variant})" if self.variant not in ("", "redis") else label

    @property
    def key(self) -> str:
        """As results name it."""
        return f"{self.store}/{self.name}"


ASYNC, PLAIN = ("async",), ("plain",)
STORM = ("storm",)
CONTENDERS = (
    Contender("mulligan", "redis", 60_000),
    Contender("mulligan", "redis", 60_000, variant="retry-first", only=STORM),
    Contender("bullmq", "redis", 14_000, kinds=ASYNC, node=True),
    Contender("dramatiq", "redis", 3_000, kinds=PLAIN, bulk=False),
    Contender("huey", "redis", 3_000, variant="redis", kinds=PLAIN, bulk=False),
    Contender("taskiq", "redis", 2_500),
    Contender("saq", "redis", 2_000),
    Contender("arq", "redis", 800, variant="defaults", kinds=ASYNC, bulk=False),
    Contender("arq", "redis", 2_000, variant="fast poll", kinds=ASYNC, bulk=False),
    Contender("celery", "redis", 1_000, variant="prefork", kinds=PLAIN, bulk=False),
    Contender("celery", "redis", 1_000, variant="threads", kinds=PLAIN, bulk=False),
    Contender("rq", "redis", 200, variant="simple", kinds=PLAIN),
    Contender("rq", "redis", 60, variant="fork", kinds=PLAIN),
    Contender("mulligan", "postgres", 40_000),
    Contender("mulligan", "postgres", 40_000, variant="retry-first", only=STORM),
    Contender("pgqueuer", "postgres", 10_000, kinds=ASYNC),
    Contender("graphile", "postgres", 35_000, variant="batched", kinds=ASYNC, node=True),
    Contender("graphile", "postgres", 2_000, variant="defaults", kinds=ASYNC, node=True),
    Contender("oban", "postgres", 1_500, kinds=ASYNC),
    Contender("saq", "postgres", 700),
    Contender("procrastinate", "postgres", 500),
    Contender("mulligan", "sqlite", 40_000),
    Contender("mulligan", "sqlite", 40_000, variant="retry-first", only=STORM),
    Contender("huey", "sqlite", 3_000, variant="fsync", kinds=PLAIN, bulk=False),
    Contender("huey", "sqlite", 3_000, variant="no fsync", kinds=PLAIN, bulk=False),
    Contender("mulligan", "mongo", 4_000),
)
