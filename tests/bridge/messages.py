"""Writes to Redis what Celery and RQ write, as recorded from Celery 5.7 and RQ 2.12."""

import base64
import json
import uuid
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis

AFTER = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def celery_message(
    task: str,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    id: str | None = None,  # noqa: A002 - as Celery names it
    after: dict[str, Any] | None = None,
    content_type: str = "application/json",
    **headers: Any,
) -> str:
    """A message as kombu pushes it."""
    name = id or str(uuid.uuid4())
    body = json.dumps([list(args), kwargs or {}, AFTER | (after or {})])
    return json.dumps(
        {
            "body": base64.b64encode(body.encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": content_type,
            "headers": {
                "lang": "py",
                "task": task,
                "id": name,
                "eta": None,
                "expires": None,
                "group": None,
                "retries": 0,
                "timelimit": [None, None],
                "root_id": name,
                **headers,
            },
            "properties": {
                "correlation_id": name,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": "celery"},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    )


def rq_job(redis: "Redis", prefix: str, id_: str, call: Any, **fields: Any) -> None:
    """The hash of a job; a call that is bytes stands there as it is."""
    data = call if isinstance(call, bytes) else json.dumps(call).encode()
    said: Any = {"data": zlib.compress(data), "status": "queued", "timeout": "180", **fields}
    redis.hset(f"{prefix}rq:job:{id_}", mapping=said)
