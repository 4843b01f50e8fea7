"""A stage: the next task of a chain, a sink, or a task for dead letters."""

from msgspec import Raw, Struct

from mulligan.core.lane import Priority


class Stage(Struct, frozen=True, omit_defaults=True):
    """A task to run next, and its options; without a region, in that of the job before.

    With `each` there is a job for every element of the result. It is called with the bound `args`,
    the result before it unless it `ignores` that, and the bound `kwargs`.
    """

    task: str
    queue: str = "default"
    region: str | None = None
    priority: int = Priority.NORMAL
    retry: Raw = Raw(b"{}")
    timeout: float | None = None
    delay: float = 0.0
    expires: float | None = None
    limits: str | None = None
    fairness_key: str | None = None
    each: bool = False
    gated: bool = False
    on_dead: "Stage | None" = None
    sink: "Stage | None" = None
    args: tuple[Raw, ...] = ()
    kwargs: dict[str, Raw] = {}
    ignores: bool = False
    keep: int | None = None
