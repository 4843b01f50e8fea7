-- A job is written once, and again only when it is put off. Where it stands is a row of one of four
-- small tables: in its `lane`, `held` back from it, `running` or `ended`. So a claim moves a row
-- from lane to running, and a commit from running to ended, and neither rewrites the job. The
-- tables are strict: no hand and no other program can put a value of another kind into them.

DROP VIEW IF EXISTS inbox;
ALTER TABLE job RENAME TO old;
DROP INDEX job_unique;

CREATE TABLE job (
    place INTEGER PRIMARY KEY,              -- order of enqueue
    id TEXT NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    region TEXT NOT NULL,
    priority INTEGER NOT NULL,              -- 0 normal, 2 urgent
    scope TEXT NOT NULL,                    -- with queue and lane_priority: its lane, or its last one
    lane_priority INTEGER NOT NULL,         -- 0 normal, 1 retry, 2 urgent, 3 retry of an urgent job
    due REAL NOT NULL,
    sequence INTEGER NOT NULL,              -- order of joining that lane
    delayed INTEGER NOT NULL DEFAULT 0,     -- 1: was put off when it joined
    token INTEGER NOT NULL,                 -- of its last claim before it joined
    committed INTEGER NOT NULL DEFAULT 0,   -- the last token whose outcome was written, but for done
    retry_count INTEGER NOT NULL DEFAULT 0,
    replay INTEGER NOT NULL DEFAULT 0,
    snoozes INTEGER NOT NULL DEFAULT 0,
    trail TEXT NOT NULL DEFAULT '',         -- what its last failure left for the next attempt
    created_at REAL NOT NULL,
    started_at REAL,                        -- of the attempt before it joined, as worker_region
    worker_region TEXT,
    last_retry_at REAL,
    expires_at REAL,
    unique_key TEXT,
    unique_in TEXT,                         -- the queue of the key, where it is not its own
    key_queue TEXT,                         -- the queue of the key until the job has ended
    concurrency_key TEXT,
    concurrency_limit INTEGER NOT NULL DEFAULT 1,
    awaits INTEGER NOT NULL DEFAULT 0,      -- how many have yet to arrive before it may start
    gather TEXT,                            -- the job at which it arrives when it is done
    gather_index INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL                      -- JSON; never changes
) STRICT;

CREATE UNIQUE INDEX job_unique ON job (key_queue, unique_key) WHERE key_queue IS NOT NULL;

-- Jobs that are pending, in the order in which they start. One that has not started may expire.
CREATE TABLE lane (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    due REAL NOT NULL,
    sequence INTEGER NOT NULL,
    place INTEGER NOT NULL,
    delayed INTEGER NOT NULL,
    expires_at REAL,
    PRIMARY KEY (queue, scope, lane_priority, due, sequence)
) WITHOUT ROWID, STRICT;

CREATE INDEX lane_delayed ON lane (queue, due, delayed) WHERE delayed = 1;
CREATE INDEX lane_expires ON lane (expires_at, place) WHERE expires_at IS NOT NULL;

-- Jobs that are pending and stand in no lane: until their key has room, or others have arrived.
CREATE TABLE held (
    place INTEGER PRIMARY KEY,
    why TEXT NOT NULL,                      -- key, arrivals
    concurrency_key TEXT,
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    concurrency_limit INTEGER NOT NULL,
    due REAL NOT NULL,
    sequence INTEGER NOT NULL,
    delayed INTEGER NOT NULL,
    expires_at REAL
) STRICT;

CREATE INDEX held_key ON held
    (why, concurrency_key, queue, scope, lane_priority, concurrency_limit, due, sequence);
CREATE INDEX held_expires ON held (expires_at, place) WHERE expires_at IS NOT NULL;

CREATE TABLE running (
    place INTEGER PRIMARY KEY,
    worker TEXT NOT NULL,
    worker_region TEXT,
    token INTEGER NOT NULL,
    started_at REAL,
    leased_at REAL                          -- as started_at, but of a reclaim too
) STRICT;

CREATE INDEX running_worker ON running (worker);

CREATE TABLE ended (
    place INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,                   -- done, failed, cancelled
    ended_at REAL NOT NULL,
    token INTEGER NOT NULL,
    started_at REAL,                        -- of the attempt that it ended, as worker_region
    worker_region TEXT,
    result TEXT,
    cancel_reason TEXT
) STRICT;

-- One index serves prune, the dead letters of a queue, and the counts of what has ended.
CREATE INDEX ended_queue ON ended (queue, status, ended_at);

INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    committed, retry_count, replay, snoozes, trail, created_at, started_at, worker_region,
    last_retry_at, expires_at, unique_key, unique_in, key_queue, concurrency_key,
    concurrency_limit, awaits, gather, gather_index, body
)
SELECT
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    committed, retry_count, replay, snoozes, trail, created_at, started_at, worker_region,
    last_retry_at, expires_at, unique_key, unique_in,
    CASE
        WHEN unique_key IS NOT NULL AND status IN ('pending', 'processing')
            THEN coalesce(unique_in, queue)
    END,
    concurrency_key, concurrency_limit, awaits, gather, gather_index, CAST(body AS BLOB)
FROM old;

INSERT INTO lane (
    queue, scope, lane_priority, due, sequence, place, delayed, expires_at
)
SELECT
    queue, scope, lane_priority, due, sequence, place, delayed,
    CASE WHEN retry_count = 0 AND snoozes = 0 AND replay = 0 THEN expires_at END
FROM old
WHERE status = 'pending' AND held = 0;

INSERT INTO held (
    place, why, concurrency_key, queue, scope, lane_priority, concurrency_limit, due, sequence,
    delayed, expires_at
)
SELECT
    place, CASE held WHEN 1 THEN 'key' ELSE 'arrivals' END, concurrency_key, queue, scope,
    lane_priority, concurrency_limit, due, sequence, delayed,
    CASE WHEN retry_count = 0 AND snoozes = 0 AND replay = 0 THEN expires_at END
FROM old
WHERE status = 'pending' AND held > 0;

INSERT INTO running (place, worker, worker_region, token, started_at, leased_at)
SELECT place, worker, worker_region, token, started_at, leased_at
FROM old
WHERE status = 'processing';

INSERT INTO ended (
    place, queue, status, ended_at, token, started_at, worker_region, result, cancel_reason
)
SELECT
    place, queue, status, ended_at, token, started_at, worker_region, result, cancel_reason
FROM old
WHERE status IN ('done', 'failed', 'cancelled');

DROP TABLE old;
