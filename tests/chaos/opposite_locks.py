"""Another session of PostgreSQL that takes the locks of jobs in the opposite order."""

import time
from contextlib import suppress

import psycopg
from psycopg.errors import DeadlockDetected

# A round takes half a second at most: whoever needs those jobs waits no longer.
ROUNDS = 5
ROWS = 20
BETWEEN = 0.02
# We look for a deadlock before the others do, who take a second, and so it is we who give way.
SOON = "SET deadlock_timeout = '100ms'"
RUNNING = "SELECT id FROM mulligan.job WHERE status = 'processing' ORDER BY id DESC LIMIT %s"
LOCK = "SELECT 1 FROM mulligan.job WHERE id = %s FOR UPDATE"
WORKERS = "LOCK TABLE mulligan.worker IN SHARE ROW EXCLUSIVE MODE"


class Struck:
    """How often the server broke a deadlock by ending our side of it."""

    def __init__(self) -> None:
        self.ours = 0


def oppose(url: str, struck: Struck) -> None:
    """Lock running jobs one by one, the last first, then the table of workers; several times."""
    # The server may be killed meanwhile.
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2) as session:
        session.execute(SOON)
        session.commit()
        for _ in range(ROUNDS):
            try:
                for (job,) in session.execute(RUNNING, (ROWS,)).fetchall():
                    session.execute(LOCK, (job,))
                    time.sleep(BETWEEN)
                session.execute(WORKERS)
            except DeadlockDetected:
                struck.ours += 1
            session.rollback()
