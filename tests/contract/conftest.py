"""The contract suite runs on four shards of memory too.

What a test names lives in the first of them, as in an app that had one store and has grown: so all
that is asked of four shards and put together again is held to the contract exactly. Jobs that are
spread over shards are in `tests/stores/shards`.
"""

from collections.abc import AsyncIterator

import pytest

from tests.reuse import REUSED, reused_url
from tests.store_kit import SHARDS, STORES, fresh_url, require

DIVIDED = "caps and budgets are divided among shards: the first allows its part"
KEYED = "a scheduled call with a unique key is refused where there are several shards"
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


@pytest.fixture(params=(*STORES, pytest.param("shards", marks=pytest.mark.prove)))
async def store_url(request, tmp_path) -> AsyncIterator[str]:
    """The URL of an empty store, of each engine in turn; new if the test opens it itself."""
    name = request.param
    if name == "shards":
        if request.node.originalname in OTHERWISE:
            pytest.skip(f"shards: {OTHERWISE[request.node.originalname]}")
        yield SHARDS
        return
    require(name)
    reuse = "store" in request.fixturenames and name in REUSED
    with_url = reused_url(name) if reuse else fresh_url(name, tmp_path)
    async with with_url as url:
        yield url
