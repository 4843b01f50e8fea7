"""What readers and plans ask: known without looking at more than is needed."""

from mulligan.core.counts import Count
from mulligan.stores.postgres import PostgresStore
from tests.contract.builders import begin, done, jobs
from tests.store_kit import VirtualClock, handle
from tests.stores.postgres.kit import connected, explaining, opened, read


async def test_notes_are_found_without_reading_the_others(store, url):
    await store.note("find/a", b"1", 600.0)
    with connected(url) as connection:
        connection.execute(
            "INSERT INTO note (key, value, until)"
            " SELECT 'other/' || n, '', 9e15 FROM generate_series(1, 5000) n"
        )
        connection.execute("ANALYZE note")
        plans = explaining(connection)
        connection.execute(store._database.statements["notes"].encode(), (None, "find/"))
    plan = next(text for text in plans if " on note" in text)
    assert "Seq Scan" not in plan
    assert read(1, plan)
    assert "Rows Removed" not in plan


async def test_what_is_kept_is_known_without_looking_at_jobs(url):
    async with opened(url) as store:
        ends = await begin(store, *jobs(*(f"j{n}" for n in range(300))))
        await store.commit([done(each) for each in ends[:290]])
        with connected(url) as connection:
            connection.execute("ANALYZE")
            plans = explaining(connection)
            connection.execute(store._database.statements["stats"].encode(), (None,))
    read = "\n".join(plans)
    assert "Scan on kept_change" in read
    assert "Seq Scan on job" not in read
    assert "Index Scan using job_pkey on job" in read, "what is running is looked up"


async def test_old_counts_are_not_read_and_go_when_it_is_time(url):
    clock = VirtualClock()
    async with handle(url, clock) as store:
        with connected(url) as connection:
            connection.execute(
                "INSERT INTO count_recent (queue, region, name, start, value)"
                " SELECT 'q', 'US', 'failed', n * 5e6, 1 FROM generate_series(1, 5000) n"
            )
            await store.count([Count("q", "US", "failed", 1)])
            plans = explaining(connection)
            values = (int(clock.now * 1e6), 60_000_000)
            connection.execute(PostgresStore(url)._database.statements["facts"].encode(), values)
            read = [text for text in plans if "count_recent" in text]
            assert read
            assert not any(
                "rows=5000" in text or "Seq Scan on count_recent" in text for text in read
            )
            await store.prune(0.0, 1000)
            assert connection.execute("SELECT count(*) FROM count_recent").fetchone() == (1,)
