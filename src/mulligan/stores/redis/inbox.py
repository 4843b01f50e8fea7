"""Jobs from producers in any language: JSON documents pushed to the inbox, accepted by workers.

Documents are checked here, in Python; the scripts only move them. An idle worker blocks on the
inbox, so that a document is a job a moment after it was pushed.
"""

import asyncio
import logging
import uuid
from typing import Any, Literal

import msgspec
from msgspec import Struct, ValidationError

from mulligan.core.checks import check_depth, check_name, check_region, check_seconds
from mulligan.core.errors import InvalidError, StoreError
from mulligan.core.job import NewJob, encode
from mulligan.core.lane import ANYWHERE, PriorityWord, priority_of
from mulligan.core.retry import preset
from mulligan.core.settings import Settings, kept_for
from mulligan.core.written_retry import Retry, misfit_of_call
from mulligan.stores.redis.connection import Server, Value, end
from mulligan.stores.redis.enqueue import runs_values
from mulligan.stores.redis.fields import JSON

BATCH = 100
REFUSALS_KEPT = 1000
BLOCK_SECONDS = 30.0
RETRY_SECONDS = 1.0

log = logging.getLogger("mulligan")


class Document(Struct, forbid_unknown_fields=True):
    """A job as another program writes it; only the task is required.

    Null and empty text are absent, as encoders of Go write them.
    """

    task: str
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    queue: str | None = None
    region: str | None = None
    delay: float | None = None
    priority: PriorityWord | Literal[""] | None = None
    id: str | None = None
    unique_key: str | None = None
    retry: Retry | str | None = None
    keep: float | None = None


DOCUMENT = msgspec.json.Decoder(Document)


def read_document(text: bytes) -> NewJob:
    """The job that a document asks for; InvalidError says what is wrong with it."""
    check_depth("an argument", text, around=2)
    try:
        document = DOCUMENT.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        why = misfit_of_call(error, Document) if isinstance(error, ValidationError) else error
        raise InvalidError(f"the document is no job: {why}") from error
    check_name("task", document.task)
    if document.unique_key:
        check_name("unique_key", document.unique_key)
    body = body_of(document)
    limit = Settings().payload_limit
    if len(body) > limit:
        message = f"the payload has {len(body)} bytes; at most {limit} are taken"
        raise InvalidError(message)
    return NewJob(
        id=check_name("id", document.id) if document.id else uuid.uuid4().hex,
        queue=check_name("queue", document.queue or "default"),
        task=document.task,
        body=body,
        region=check_region(document.region or ANYWHERE),
        priority=priority_of(document.priority or "normal"),
        delay=check_seconds("delay", document.delay or 0.0),
        unique_key=document.unique_key or None,
        keep=None if document.keep is None else kept_for(document.keep),
    )


def body_of(document: Document) -> bytes:
    """The body, with what the document says; what it leaves out is its task's to say."""
    given = [name for name in ("id", "retry") if getattr(document, name)]
    body: dict[str, Any] = {
        "task": document.task,
        "args": document.args or [],
        "kwargs": document.kwargs or {},
        "given": given,
    }
    if document.retry:
        said = document.retry
        body["retry"] = preset(said) if isinstance(said, str) else said
    return encode(body)


class Inbox:
    """The listener that turns documents into jobs, in the background of a worker's store."""

    def __init__(self, server: Server, now: Any) -> None:
        self._server = server
        self._now = now
        self._listener: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Begin to listen, unless that has begun."""
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(), name="mulligan-redis-inbox")

    async def close(self) -> None:
        """Stop listening. What was taken and not accepted is accepted by the next listener."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await end(listener)

    async def _listen(self) -> None:
        tag = self._server.url.tag
        words = ("BLMOVE", f"{tag}:inbox", f"{tag}:inbox:taken", "LEFT", "RIGHT")
        task = asyncio.current_task()
        # The driver may swallow a cancellation; `cancelling` still says that there was one.
        while task is None or not task.cancelling():
            try:
                while await self.drain():
                    pass
                await self._server.block(BLOCK_SECONDS, *words)
            except StoreError as error:
                log.debug("the inbox waits: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def drain(self) -> int:
        """Accept or refuse what waits in the inbox, up to a batch; how many entries that were."""
        entries: list[bytes] = await self._server.run("take_inbox", self._now(), BATCH)
        if not entries:
            return 0
        values: list[Value] = []
        for entry in entries:
            try:
                job = runs_values([read_document(entry)])
            except InvalidError as error:
                values += (entry, refusal(entry, str(error)))
            else:
                values += (entry, "", *job)
        await self._server.run("accept", self._now(), REFUSALS_KEPT, *values)
        return len(entries)


def refusal(entry: bytes, reason: str) -> bytes:
    """What is noted of an entry that was refused."""
    log.warning("refused an entry of the inbox: %s", reason)
    return JSON.encode({"reason": reason, "entry": entry.decode(errors="replace")})
