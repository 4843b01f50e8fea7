"""The layout of the keys: one version, written when a store is first opened."""

from mulligan.core.errors import StoreError
from mulligan.stores.redis import doctor
from mulligan.stores.redis.connection import Server

# docs/reference/stores/redis.md has the table of the keys.
LAYOUT = "1"


async def prepare(server: Server, *, read_only: bool) -> None:
    """Check the server's version and the layout, and write the layout where there is none.

    A server that is too old, and keys of another layout, are refused.
    """
    info = doctor.parse_info(await server.command("INFO"))
    level, sentence, remedy = doctor.version_finding(info)
    if level == "bad":
        raise StoreError(f"{server.url.shown}: {sentence}; {remedy}")
    if info.get("cluster_enabled") == "1":
        await server.learn_nodes()
    elif len(server.url.hosts) > 1 and not server.url.service:
        raise StoreError(
            f"{server.url.shown} is no cluster, and several hosts in one URL are nodes of one; for"
            " a primary with replicas use redis+sentinel://, for shards on several servers give"
            " the URL of each, with blanks between them"
        )
    server.knows_readers = doctor.version_of(info) >= doctor.KNOWS_READERS
    key = f"{server.url.tag}:layout"
    if not read_only:
        await server.command("SETNX", key, LAYOUT)
    layout = (await server.command("GET", key) or LAYOUT.encode()).decode()
    if layout != LAYOUT:
        raise StoreError(
            f"{server.url.shown} has keys of layout {layout}, and this release knows {LAYOUT};"
            " use the newest mulligan everywhere, or another prefix"
        )
