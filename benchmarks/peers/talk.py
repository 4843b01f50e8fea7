"""One peer in its own environment: its client, told by the harness what to do, or its worker.

    python talk.py with_celery client|worker|web

The client reads a request a line, `{"verb": ..., "arguments": [...]}`, and answers each by a line,
`{"value": ...}` or `{"error": ...}`. Each `with_*.py` has a class `Client` with these verbs, plain
or async: `enqueue_one(count)`, `enqueue_many(count, plain)` where there are such jobs,
`enqueue_work(calls)`, `left()` and `failed()`; `open()` makes what an empty store needs. Its
function `worker` becomes the peer's own worker process.
"""

import asyncio
import inspect
import json
import os
import sys
import time
from importlib import import_module
from importlib.metadata import version


async def serve(module):
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the peer prints is no answer
    client = module.Client()
    if hasattr(client, "open"):
        await client.open()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answers.write(json.dumps(await answer(module, client, json.loads(line))) + "\n")
        answers.flush()


async def answer(module, client, request):
    """Do what is asked."""
    if request["verb"] == "version":
        found = getattr(module, "VERSION", None)
        return {"value": found or version(module.DISTRIBUTION)}
    before = time.time()
    try:
        value = verb_of(client, request["verb"])(*request["arguments"])
        if inspect.isawaitable(value):
            value = await value
    except Exception as error:  # noqa: BLE001 - the harness is told
        return {"error": f"{type(error).__name__}: {error}"}
    return {"value": value, "before": before}


def verb_of(client, verb):
    """What the client does by this name; any client can enqueue by many coroutines."""
    if verb != "enqueue_together":
        return getattr(client, verb)

    async def enqueue_together(count, callers):
        """So many coroutines, each of which enqueues one job after the other."""

        async def caller():
            value = client.enqueue_one(count // callers)
            if inspect.isawaitable(value):
                await value

        await asyncio.gather(*(caller() for _ in range(callers)))

    return enqueue_together


def become(*command):
    """Go on as another program of this environment, in the same process."""
    os.execv(sys.executable, [sys.executable, *command])


def main():
    """Be the client, the worker, or a web server that enqueues."""
    module = import_module(sys.argv[1])
    if sys.argv[2] == "worker":
        module.worker()
    elif sys.argv[2] == "web":
        import_module("web").serve(module)
    else:
        asyncio.run(serve(module))


if __name__ == "__main__":
    main()
