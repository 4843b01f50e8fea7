"""Shards in the dashboard: one that is away is told everywhere, and comes back by itself."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from mulligan.core.limits import Limit
from mulligan.core.shards import tagged
from tests.browser.site import Site
from tests.browser.test_limits import picture
from tests.cli.command_line import new_job
from tests.databases import RedisServer


async def fill(store):
    """A job in each shard, and a limit in the second."""
    await store.set_limit("disk", Limit(concurrency=1, home=1), declared=True)
    await store.enqueue([new_job(tagged(f"j{number}", number % 2)) for number in range(4)])


@pytest.fixture(scope="module")
def servers(chromium) -> Iterator[tuple[RedisServer, RedisServer]]:
    with RedisServer() as one, RedisServer() as other:
        yield one, other


@pytest.fixture(scope="module")
def site(servers) -> Iterator[Site]:
    one, other = servers
    with Site(f"{one.url} {other.url}") as site:
        site.on_store(fill)
        yield site


@pytest.mark.parametrize("number", [1, 0])
def test_a_shard_that_is_away_is_told_and_all_else_is_still_shown(site, servers, page, number):
    page.open(site, "workers")
    shards = page.page.locator("table", has=page.page.get_by_text("Store", exact=True)).first
    expect(shards.locator("tbody tr")).to_have_count(2)
    expect(shards.get_by_text("answers")).to_have_count(2)
    servers[number].kill()
    expect(shards.get_by_text("away", exact=True)).to_have_count(1)
    picture(page, f"shard-{number}-away-workers")
    for where in ("", "queues", "jobs", "limits"):
        page.open(site, where)
        picture(page, f"shard-{number}-away-{where or 'overview'}")
        if not where:
            expect(page.page.get_by_text(f"shard {number} ").first).to_contain_text("is away")
    page.open(site, "workers")
    servers[number].start()
    expect(shards.get_by_text("answers")).to_have_count(2)
