"""What the traceback of a failed attempt says, leaves out and never does."""

import asyncio
import types

import pytest

from mulligan import Fail, JobFailedError, Mulligan, Retry, RetryAfter
from mulligan.core.checks import type_name
from mulligan.core.settings import TEXT_LIMIT, TRACEBACK_LIMIT
from mulligan.engine.traceback import bounded, kept_message, traceback_of

ONCE = Retry(0)


@pytest.fixture
def app():
    return Mulligan("memory://")


def raised(action) -> Exception:
    """What the action raises."""
    try:
        action()
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError("nothing was raised")


def told(error: BaseException | None) -> str:
    """Its traceback."""
    assert error is not None
    said = traceback_of(error)
    assert said is not None
    return said


def dig(depth: int) -> None:
    """Fail so many calls below."""
    if depth:
        dig(depth - 1)
    raise LookupError("at the bottom")


def failure_of(app: Mulligan, task):
    """The one failed attempt of a job of this task."""
    with app.testing():
        job = task.enqueue()
        with pytest.raises(JobFailedError):
            job.result()
        [attempt] = job.history()
        return attempt


def test_a_failed_attempt_keeps_file_line_function_and_source(app):
    @app.task(retry=ONCE)
    async def ask() -> None:
        dig(1)

    said = failure_of(app, ask).traceback
    assert said.startswith("Traceback (most recent call last):\n")
    assert f'File "{__file__}", line' in said
    assert "in ask\n    dig(1)\n" in said
    assert "in dig\n    dig(depth - 1)\n" in said
    assert said.endswith('raise LookupError("at the bottom")\nLookupError: at the bottom\n')


def test_frames_of_mulligan_above_the_task_are_left_out(app):
    @app.task(retry=ONCE)
    def plain() -> None:
        dig(0)

    @app.task(retry=ONCE, timeout=5)
    async def with_a_timeout() -> None:
        await asyncio.sleep(0)
        dig(0)

    for task in (plain, with_a_timeout):
        said = failure_of(app, task).traceback
        files = [line for line in said.splitlines() if line.startswith("  File")]
        assert [f'"{__file__}"' in line for line in files] == [True, True]


def test_frames_of_mulligan_below_the_task_are_kept(app):
    @app.task(retry=ONCE)
    async def ask() -> None:
        app.queue("")

    assert "mulligan.py" in failure_of(app, ask).traceback


def test_the_outermost_five_and_the_innermost_twenty_frames_are_kept():
    said = told(raised(lambda: dig(100)))
    lines = said.splitlines()
    assert "  [… 78 frames left out …]" in lines
    at = lines.index("  [… 78 frames left out …]")
    files = [number for number, line in enumerate(lines) if line.startswith("  File")]
    assert sum(number < at for number in files) == 5
    assert sum(number > at for number in files) == 20
    assert "in raised" in lines[1]
    assert lines[-2] == '    raise LookupError("at the bottom")'


def test_causes_and_contexts_are_told_in_the_order_in_which_they_happened():
    def causes():
        try:
            try:
                dig(0)
            except LookupError as error:
                raise ConnectionError("no route") from error
        except ConnectionError:
            raise RuntimeError("gave up")  # noqa: B904

    said = told(raised(causes))
    order = [
        said.index(words)
        for words in (
            "LookupError: at the bottom\n",
            "The above exception was the direct cause",
            "ConnectionError: no route\n",
            "During handling of the above exception",
            "RuntimeError: gave up\n",
        )
    ]
    assert order == sorted(order)


def test_a_context_that_was_suppressed_is_left_out():
    def suppresses():
        try:
            dig(0)
        except LookupError:
            raise RuntimeError("gave up") from None

    assert "LookupError" not in told(raised(suppresses))


def test_the_members_of_an_exception_group_are_told_with_their_causes():
    def groups():
        members = [raised(lambda: dig(0)), ExceptionGroup("inner", [ValueError("two")])]
        raise ExceptionGroup("several", members)

    said = told(raised(groups))
    assert "ExceptionGroup: several (2 sub-exceptions)\n" in said
    assert "  | LookupError: at the bottom\n" in said
    assert "  |   | ValueError: two\n" in said


def test_notes_are_kept():
    error = raised(lambda: dig(0))
    error.add_note("while asking for order 7")
    assert told(error).endswith("at the bottom\nwhile asking for order 7\n")


def test_local_variables_are_left_out():
    def knows(customer: int) -> None:
        dig(customer * 0)

    assert str(987_654_321) not in told(raised(lambda: knows(987_654_321)))


def test_passwords_and_tokens_are_hidden():
    def connects():
        raise ConnectionError("postgresql://app:hunter2@db/orders, api_key=c0ffee, Bearer abc.def")

    error = raised(connects)
    error.add_note("password: hunter2")
    said = told(error)
    for secret in ("hunter2", "c0ffee", "abc.def"):
        assert secret not in said


def test_the_message_of_a_failure_shows_no_secret_either(caplog):
    app = Mulligan("memory://", retry=Retry(0))

    @app.task
    def connects() -> None:
        raise ConnectionError("no answer from postgresql://app:hunter2@db/orders, token=c0ffee")

    with app.testing() as t:
        job = connects.enqueue()
        t.drain()
        [attempt] = job.history()
        assert attempt.message == "no answer from postgresql://app:***@db/orders, token=***"
    assert "no answer from" in caplog.text
    assert "hunter2" not in caplog.text
    assert len(kept_message("x" * 5000 + " token=c0ffee")) == TEXT_LIMIT
    assert len(kept_message("token=" * 5000)) <= TEXT_LIMIT


def test_a_quote_in_a_message_hides_no_frame():
    def connects():
        raise ConnectionError("""token: "never closed""")

    said = told(raised(connects))
    assert "in connects" in said
    assert "never closed" not in said.splitlines()[-1]


def test_a_traceback_has_at_most_eight_kibibytes_and_keeps_every_message():
    def chained(depth: int) -> None:
        try:
            if depth:
                chained(depth - 1)
            dig(30)
        except (LookupError, RuntimeError) as error:
            raise RuntimeError(f"level {depth}") from error

    said = told(raised(lambda: chained(5)))
    assert len(said.encode()) <= TRACEBACK_LIMIT
    assert [f"RuntimeError: level {n}\n" in said for n in range(6)] == [True] * 6


def test_long_messages_are_cut_and_the_limit_is_of_bytes():
    def shouts():
        errors = [raised(lambda: dig(0)) for _ in range(9)]
        for error in errors:
            error.add_note("☃" * 5000)
        raise ExceptionGroup("☃" * 100_000, errors)

    said = told(raised(shouts))
    assert len(said.encode()) <= TRACEBACK_LIMIT
    assert "[… cut …]" in said


def test_causes_that_go_in_a_circle_end():
    first, second = raised(lambda: dig(0)), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert told(first).count("LookupError: at the bottom") == 1


def test_a_thousand_causes_are_not_all_told():
    error = None
    for number in range(1000):
        each = ValueError(number)
        each.__cause__ = error
        error = each
    assert told(error).count("ValueError") == 20


def test_an_exception_that_was_never_raised_has_no_traceback(app):
    @app.task(retry=ONCE)
    async def ask() -> object:
        return Fail("no")

    assert traceback_of(ValueError("x")) is None
    assert failure_of(app, ask).traceback is None


def test_a_signal_that_was_raised_keeps_its_cause(app):
    @app.task(retry=ONCE)
    async def ask() -> None:
        try:
            dig(0)
        except LookupError as error:
            raise RetryAfter(1, "busy") from error

    attempt = failure_of(app, ask)
    assert attempt.type == "RetryAfter"
    assert "LookupError: at the bottom\n" in attempt.traceback


def test_the_traceback_of_a_timeout_says_where_the_coroutine_was(app):
    @app.task(retry=ONCE, timeout=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    attempt = failure_of(app, slow)
    assert attempt.type == "Timeout"
    assert "await asyncio.sleep(60)" in attempt.traceback


def explode(*_args: object) -> str:
    """What a broken class may do wherever it is asked."""
    raise SystemExit


LyingMeta = type("LyingMeta", (type,), {"__module__": property(explode)})
ATTRIBUTES = ("__notes__", "__dict__", "__cause__", "__context__", "__traceback__", "code")
LiarError = LyingMeta(
    "LiarError",
    (Exception,),
    {name: property(explode) for name in (*ATTRIBUTES, "retry_after", "response", "headers")}
    | {"__str__": explode},
)


class Odd(str):
    __slots__ = ()

    def encode(self, *args):
        raise SystemExit


class UnprintableError(Exception):
    def __str__(self):
        return Odd("odd")


def test_no_exception_class_makes_it_raise(app):
    def lies():
        raise LiarError

    def odd():
        raise UnprintableError

    assert type_name(LiarError) == "Exception"
    assert "in lies" in told(raised(lies))
    assert told(raised(odd)).endswith("UnprintableError: odd\n")

    @app.task(retry=ONCE)
    async def ask() -> None:
        raise LiarError

    assert failure_of(app, ask).type == "Exception"


def test_a_type_is_named_as_python_prints_it():
    made = type("Local", (Exception,), {"__module__": "__main__", "__qualname__": "Local"})
    assert type_name(ValueError) == "ValueError"
    assert type_name(made) == "Local"
    assert type_name(asyncio.QueueEmpty) == "asyncio.queues.QueueEmpty"
    assert type_name(JobFailedError).startswith("mulligan.")


def test_source_that_cannot_be_read_is_left_out():
    module = types.ModuleType("made_up")
    exec(compile("def f():\n    1 / 0", "<made up>", "exec"), module.__dict__)  # noqa: S102

    class Loader:
        def get_source(self, name):
            raise RuntimeError("no source today")

    module.__dict__["__loader__"] = Loader()
    said = told(raised(module.f))
    assert '  File "<made up>", line 2, in f\nZeroDivisionError' in said


def test_deep_recursion_is_told_within_bounds():
    def endless():
        return endless()

    said = told(raised(endless))
    assert "RecursionError" in said
    assert "frames left out" in said


def test_what_a_worker_in_another_language_sent_is_bounded_and_has_no_secrets():
    said = bounded("Error: password=hunter2\n" + "    at ask (ask.js:1:1)\n" * 1000 + "the end\n")
    assert len(said.encode()) <= TRACEBACK_LIMIT
    assert "hunter2" not in said
    assert said.endswith("the end\n")
    assert len(bounded("x" * 100_000)) <= TRACEBACK_LIMIT


def test_a_secret_at_the_limit_of_a_message_is_hidden_before_the_text_is_cut():
    text = "y" * (TEXT_LIMIT - 17) + "redis://me:hunter2@host/0"
    assert "hunter" not in kept_message(text)
    assert len(kept_message(text)) == TEXT_LIMIT
