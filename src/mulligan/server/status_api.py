"""The routes that show what a store is doing."""

from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.lane import ANYWHERE
from mulligan.core.status import region_status
from mulligan.server.events import Hub
from mulligan.server.listed import ListQuery, named_part, part_of
from mulligan.server.overview import health_of
from mulligan.server.problems import Refusal
from mulligan.server.service import Service
from mulligan.server.shapes.status import (
    DelayedSets,
    Lanes,
    OneRegion,
    Overview,
    Queues,
    Regions,
    StatusDocument,
    Tasks,
    TaskView,
    Workers,
)

T = TypeVar("T")
# Proxies such as nginx would hold events back otherwise.
UNBUFFERED = {"X-Accel-Buffering": "no"}


def shaped(document: Mapping[str, Any], shape: type[T]) -> T:
    """The parts of a document that the shape names."""
    return msgspec.convert({k: v for k, v in document.items() if v is not msgspec.UNSET}, shape)


async def status(service: Service, query: ListQuery) -> StatusDocument:
    """Sizes of the global retry queue and of each region, and what runs there."""
    whole = await service.status()
    regions, after = named_part(whole["regions"], query)
    return shaped(whole | {"regions": regions, "after": after}, StatusDocument)


async def one_region(service: Service, region: str) -> OneRegion:
    """One region; its running jobs also say whether they are retries."""
    check_name("region", region)
    whole = await service.status()
    try:
        return shaped(region_status(whole, region), OneRegion)
    except InvalidError as error:
        raise Refusal("unknown", str(error)) from error


async def overview(service: Service) -> Overview:
    """Everything in one document: status, queues, delayed sets, lanes, health, workers, alerts.

    Of each it has 1,000 entries at most, and `omitted` says how many were left out.
    """
    return shaped(await service.overview(), Overview)


async def queues(service: Service, query: ListQuery) -> Queues:
    """What waits, runs and has ended, by queue, with pauses and settings."""
    found, after = named_part((await service.status())["queues"], query)
    return shaped({"queues": found, "after": after}, Queues)


async def lanes(service: Service, query: ListQuery) -> Lanes:
    """Every lane that is not empty."""
    found, after = part_of((await service.status())["lanes"], lane_key, query)
    return shaped({"lanes": found, "after": after}, Lanes)


def lane_key(lane: Mapping[str, Any]) -> str:
    """What lanes are in order of."""
    return f"{lane['queue']}\t{lane['scope']}\t{lane['priority']}"


async def delayed(service: Service, query: ListQuery) -> DelayedSets:
    """The delayed jobs of each queue."""
    found, after = named_part((await service.status())["delayed"], query)
    return shaped({"delayed": found, "after": after}, DelayedSets)


async def workers(service: Service, query: ListQuery) -> Workers:
    """The workers, their regions, and whether they are alive."""
    found, after = part_of((await service.status())["workers"], itemgetter("id"), query)
    return shaped({"workers": found, "after": after}, Workers)


async def regions(service: Service, query: ListQuery) -> Regions:
    """Each region: whether it is live, and its recent attempts and breaker by queue."""
    facts = await service.store.facts()
    shown, after = part_of(facts.regions, lambda region: region.name, query)
    health: dict[str, dict[str, Any]] = defaultdict(dict)
    for each in health_of(facts):
        health[each["region"]][each["queue"]] = each
    found = {
        region.name: {
            "live": region.live,
            "serves": sorted(region.serves),
            "health": health.get(region.name, {}),
        }
        for region in shown
    }
    return shaped({"regions": found, "after": after}, Regions)


async def tasks(service: Service) -> Tasks:
    """The tasks of the app, and where their jobs go; none without an app."""
    return Tasks(
        [
            TaskView(
                name,
                task.placement.queue,
                task.placement.region or ANYWHERE,
                task.accept is not None,
                [service.redaction.parameter(each) for each in task.parameters()],
            )
            for name, task in service.tasks.items()
        ]
    )


async def events(service: Service) -> Response:
    """Live changes: a snapshot, then what changes, as server-sent events."""
    return EventStream(service.hub)


class EventStream(StreamingResponse):
    """A listener's stream; the listener leaves the hub when the response ends, however it ends."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._listener = hub.join()
        super().__init__(
            hub.stream(self._listener), headers=UNBUFFERED, media_type="text/event-stream"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the client goes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave(self._listener)
