"""A small web server in a peer's own environment: each request enqueues one job.

Starlette on uvicorn with uvloop, one process. A peer whose client is awaited has a coroutine as
endpoint, and one whose client is not has a plain function, which Starlette runs in its threads.
"""

import inspect
import os
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route


def serve(module):
    """Serve until killed."""
    client = module.Client()

    @asynccontextmanager
    async def lifespan(_app):
        if hasattr(client, "open"):
            await client.open()
        yield

    async def enqueue(_request):
        await client.enqueue_one(1)
        return Response(status_code=204)

    def enqueue_plain(_request):
        client.enqueue_one(1)
        return Response(status_code=204)

    awaited = inspect.iscoroutinefunction(client.enqueue_one)
    routes = [Route("/", enqueue if awaited else enqueue_plain, methods=["POST"])]
    app = Starlette(routes=routes, lifespan=lifespan)
    port = int(os.environ["BENCH_PORT"])
    uvicorn.run(app, host="127.0.0.1", port=port, loop="uvloop", http="h11", log_level="error")
