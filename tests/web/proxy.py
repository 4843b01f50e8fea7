"""A proxy that takes a prefix out of each path, as nginx does where its upstream has a slash.

python -m tests.web.proxy http://127.0.0.1:8000 /site
"""

import sys

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

OWN = (b"host", b"content-length", b"transfer-encoding")


def make_proxy(upstream: str, prefix: str) -> Starlette:
    """The proxy as an application."""
    transport = httpx.AsyncHTTPTransport()  # a client would keep the cookies of all

    async def forward(request: Request) -> Response:
        asked = httpx.Request(
            request.method,
            f"{upstream}/{request.path_params['path']}",
            params=request.query_params,
            headers=[pair for pair in request.headers.raw if pair[0] not in OWN],
            content=await request.body(),
        )
        answer = await transport.handle_async_request(asked)
        closing = BackgroundTask(answer.aclose)
        response = StreamingResponse(answer.aiter_raw(), answer.status_code, background=closing)
        kept = [(name.lower(), value) for name, value in answer.headers.raw]
        response.raw_headers = [pair for pair in kept if pair[0] not in OWN]
        return response

    return Starlette(routes=[Route(prefix + "/{path:path}", forward, methods=["GET", "POST"])])


if __name__ == "__main__":
    uvicorn.run(make_proxy(*sys.argv[1:]), port=0)
