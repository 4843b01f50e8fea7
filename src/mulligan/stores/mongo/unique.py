"""Unique keys: held by one job at a time, without a gap between the stages of a chain.

A key has two locks, and each is a unique index. The first (`unique_key`) is on for every job with
the key that has not ended, whoever ends it. The second (`keeps`) is on until a job lets go of it.
Who takes a key needs both. A job that ends while a next one is to have its key lets go of the first
and keeps the second; the next job, its heir, needs the first alone, and nobody else can have got
it. Once the heir is stored, the second is let go too.
"""

from collections.abc import Iterable

from mulligan.stores.mongo.base import Doc

KEEPS = "mulligan.keeps"
LET_GO = {KEEPS: ""}


def word_of(queue: str, key: str) -> str:
    """The key in one word; names have no control characters, so it is never ambiguous."""
    return f"{queue}\x1f{key}"


def key_of(doc: Doc) -> str | None:
    """The key that the job holds until it has ended."""
    private = doc["mulligan"]
    if "unique_key" not in private or "unique_queue" not in private:
        return None  # only another program writes one without the other
    return word_of(private["unique_queue"], private["unique_key"])


def keys_to_take(docs: Iterable[Doc]) -> set[str]:
    """The keys that new jobs need both locks of."""
    return {doc["mulligan"]["keeps"] for doc in docs if "keeps" in doc["mulligan"]}


def bequeath(parent: Doc, following: Iterable[Doc]) -> str | None:
    """Make the first next job with the key of the finished one its heir; returns the key to keep.

    Where the finished job never held its key, the heir does not either.
    """
    lost = parent["mulligan"].get("lost_key")
    key = lost or key_of(parent)
    for doc in following:
        if key and doc["mulligan"].get("keeps") == key:
            if lost:
                doc["mulligan"] = keyless(doc)["mulligan"]
                return None
            del doc["mulligan"]["keeps"]
            return key
    return None


def is_heir(doc: Doc) -> bool:
    """Whether a next job takes over the key of the job before it."""
    return "unique_key" in doc["mulligan"] and "keeps" not in doc["mulligan"]


def keyless(doc: Doc) -> Doc:
    """The same job without its key, which it remembers for the sake of its own next one."""
    gone = ("unique_key", "unique_queue", "unique_in", "keeps")
    private = {name: value for name, value in doc["mulligan"].items() if name not in gone}
    return doc | {"mulligan": private | {"lost_key": key_of(doc)}}
