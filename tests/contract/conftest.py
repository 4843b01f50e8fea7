"""The contract suite runs on four shards too: of memory, of Redis, PostgreSQL and MongoDB.

What a test names lives in the first of them, as in an app that had one store and has grown: so all
that is asked of four shards and put together again is held to the contract exactly. Jobs that are
spread over shards are in `tests/stores/shards`. `make test` has a sample of it, `make prove` more;
the whole on every server: MULLIGAN_TEST_SHARDS_WHOLE=1 pytest tests/contract -k shards.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from mulligan.stores.shards import connection
from tests.reuse import REUSED, reused_url
from tests.store_kit import SHARDS, STORES, fresh_url, require, with_query

DIVIDED = "caps and budgets are divided among shards: the first allows its part"
KEYED = "a scheduled call with a unique key is refused where there are several shards"
KEPT = "each shard keeps its own shares, whatever the plan says of what is owed"
LOOKS = "each shard searches its part of the jobs for a text"
# What is otherwise over several shards, as docs/concepts/shards.md says.
OTHERWISE = {
    "test_a_capped_queue_runs_no_more_retries_than_its_cap": DIVIDED,
    "test_a_gate_holds_for_all_clients_together": DIVIDED,
    "test_a_gate_is_never_exceeded": DIVIDED,
    "test_a_lowered_limit_closes_the_gate_until_enough_have_ended": DIVIDED,
    "test_a_rate_holds_for_all_clients_together": DIVIDED,
    "test_a_rate_of_a_share_grows_with_the_starts_it_is_a_share_of": DIVIDED,
    "test_a_retry_of_an_urgent_job_counts_against_the_cap": DIVIDED,
    "test_a_stale_or_repeated_commit_frees_nothing": DIVIDED,
    "test_an_expired_job_or_one_without_room_takes_no_permit": DIVIDED,
    "test_a_step_with_a_share_takes_no_more_than_that": KEPT,
    "test_every_gate_of_a_source_must_be_open_and_all_are_charged": DIVIDED,
    "test_merged_sources_behind_different_gates_keep_their_order": DIVIDED,
    "test_no_more_run_than_the_gate_allows": DIVIDED,
    "test_no_window_sees_more_starts_than_the_rate_allows": DIVIDED,
    "test_the_smallest_gates_survive_unchanged": "a cap below the number of shards is refused",
    "test_the_ratio_budget_always_allows_ten_a_minute": DIVIDED,
    "test_a_text_is_sought_in_so_many_jobs_and_then_the_page_ends": LOOKS,
    "test_what_is_placed_is_enqueued_with_all_its_options": KEYED,
    "test_a_tick_whose_id_or_unique_key_is_stored_is_not_placed_again": KEYED,
    "test_a_withdrawn_tick_is_gone_and_its_id_and_keys_are_free_at_once": KEYED,
}


# On four shards of a server; of memory they are called "shards".
SHARDED = {"redis-shards": "redis", "postgres-shards": "postgres", "mongo-shards": "mongo"}
# What `make test` sees of it.
SAMPLE = {
    "test_a_claim_says_everything_that_a_worker_needs",
    "test_a_beat_names_the_leases_that_a_worker_holds_and_never_shows",
    "test_a_commit_through_another_client_counts",
    "test_a_stale_outcome_does_not_hold_up_the_others",
    "test_pages_walk_everything_once_newest_first",
    "test_stats_equal_a_recount",
    "test_two_clients_share_a_lane_without_overlap",
}


# What `make prove` runs on those servers on which it takes minutes; on Redis it runs everything.
PART = ("test_claim.py", "test_commit.py", "test_enqueue.py", "test_leases.py", "test_operate.py")
LONG = ("postgres-shards", "mongo-shards")
# Set to anything, it has all of the suite run on them too.
WHOLE = "MULLIGAN_TEST_SHARDS_WHOLE"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have `make test` run a sample on shards of servers, and `make prove` the rest."""
    left_out = []
    for item in items:
        if not any(f"[{each}" in item.name for each in SHARDED):
            continue
        if getattr(item, "originalname", item.name) not in SAMPLE:
            item.add_marker("prove")
            is_long = any(f"[{each}" in item.name for each in LONG)
            if is_long and item.path.name not in PART and WHOLE not in os.environ:
                left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


@pytest.fixture(params=(*STORES, pytest.param("shards", marks=pytest.mark.prove), *SHARDED))
async def store_url(request, tmp_path) -> AsyncIterator[str]:
    """The URL of an empty store, of each engine in turn; new if the test opens it itself."""
    name = request.param
    if name not in STORES and request.node.originalname in OTHERWISE:
        pytest.skip(f"shards: {OTHERWISE[request.node.originalname]}")
    if name == "shards":
        yield SHARDS
        return
    require(SHARDED.get(name, name))
    reuse = "store" in request.fixturenames
    if name in SHARDED:
        with_url = four_shards(SHARDED[name], tmp_path, reuse=reuse)
    else:
        with_url = empty_place(name, tmp_path, reuse=reuse)
    async with with_url as url:
        yield url


@asynccontextmanager
async def empty_place(name: str, folder: Path, *, reuse: bool) -> AsyncIterator[str]:
    """The URL of an empty store, which other tests may have had before."""
    with_url = reused_url(name) if reuse and name in REUSED else fresh_url(name, folder)
    async with with_url as url:
        yield url


@asynccontextmanager
async def four_shards(name: str, folder: Path, *, reuse: bool) -> AsyncIterator[str]:
    """The URL of four empty shards."""
    async with AsyncExitStack() as stack:
        count = 1 if name == "redis" else 4
        urls = [
            await stack.enter_async_context(empty_place(name, folder, reuse=reuse))
            for _ in range(count)
        ]
        url = with_query(urls[0], shards="4") if name == "redis" else " ".join(urls)
        yield url
        connection._memories.pop(url, None)  # the next to have these places begins anew
