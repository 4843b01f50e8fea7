"""The routes that show metrics, to Prometheus and to other programs."""

import asyncio

import msgspec
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response

from mulligan.app.overview import metrics_document
from mulligan.server.prometheus import Measured
from mulligan.server.service import Service
from mulligan.server.shapes.metrics import Metrics


async def metrics(service: Service) -> Metrics:
    """Every metric with its values by queue and region; counters count since the store was made."""
    found = await service.scrapes.metrics()
    return await asyncio.to_thread(
        lambda: msgspec.convert({"metrics": metrics_document(found)}, Metrics)
    )


async def scrape(service: Service, request: Request) -> Response:
    """Every metric for Prometheus, in its text format or, if the client accepts it, OpenMetrics."""
    try:
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
    except (TypeError, ValueError):  # an invalid version: use the text format
        encode, media_type = choose_encoder("")
    measured = Measured(await service.scrapes.metrics())
    written = await asyncio.to_thread(encode, measured)
    return Response(written, headers={"Content-Type": media_type})
