"""Notes: small values kept for a while."""


async def test_a_note_is_kept_and_found_by_how_its_key_begins(store):
    await store.note("fleet/a", b"one", 60)
    await store.note("fleet/b", b"\x00\xfftwo", 60)
    await store.note("fleeting", b"three", 60)
    assert await store.notes("fleet/") == {"fleet/a": b"one", "fleet/b": b"\x00\xfftwo"}
    assert await store.notes("none") == {}
    assert len(await store.notes("")) == 3


async def test_a_key_is_taken_literally(store):
    await store.note("a_b%c*d[e]?\\f", b"1", 60)
    await store.note("axb%c*d[e]?\\f", b"2", 60)
    assert await store.notes("a_b%c*d[e]?\\") == {"a_b%c*d[e]?\\f": b"1"}


async def test_a_new_value_replaces_the_old_one_and_none_forgets_it(store):
    await store.note("a", b"one", 60)
    await store.note("a", b"two", 60)
    assert await store.notes("a") == {"a": b"two"}
    await store.note("a", None, 60)
    await store.note("never", None, 60)
    assert await store.notes("") == {}


async def test_a_note_is_gone_when_its_time_is_over(store, clock):
    await store.note("a", b"one", 60)
    await store.note("b", b"two", 90)
    clock.advance(60)
    assert await store.notes("") == {"b": b"two"}
    await store.prune(0, 100)
    assert await store.notes("") == {"b": b"two"}
    await store.note("a", b"again", 60)
    assert await store.notes("a") == {"a": b"again"}


async def test_keys_that_begin_alike_are_found_in_their_order_among_many(store):
    for key in ("a/2", "a/10", "a", "a/é", "b", "a/\U0001f600", "a0", "A/1"):
        await store.note(key, key.encode(), 60)
    assert list(await store.notes("a/")) == ["a/10", "a/2", "a/é", "a/\U0001f600"]
    await store.note("a/2", None, 0)
    assert list(await store.notes("a")) == ["a", "a/10", "a/é", "a/\U0001f600", "a0"]
