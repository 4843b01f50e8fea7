"""An app on the store that the test names; each process writes its spans to a file of its own."""

import logging
import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from mulligan import Delays, Mulligan, Retry, current_job
from mulligan.contrib.opentelemetry import instrument

folder = Path(os.environ["TEST_SPANS"])
out = (folder / f"{os.getpid()}.jsonl").open("a")


def line(span: ReadableSpan) -> str:
    """A span on a line."""
    return f"{span.to_json(indent=None)}\n"


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=line)))

app = Mulligan(os.environ["TEST_STORE"])
instrument(app, provider)


@app.task(retry=Retry(1, Delays((0.05,))))
def ask(question: str) -> str:
    """Fail once."""
    if current_job().attempt == 1:
        raise ValueError(question)
    return question.upper()


@app.task
async def answer(text: str) -> str:
    """The last stage."""
    return f"{text}!"


@app.task(pool="process")
def dig(depth: int) -> int:
    """Runs in a child process, and says in which span."""
    span = trace.get_current_span().get_span_context().span_id
    logging.getLogger("shop").warning("digging %d in %016x", depth, span)
    return depth


chain = ask | answer
