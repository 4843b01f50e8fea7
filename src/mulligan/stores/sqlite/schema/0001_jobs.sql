-- Everything a store keeps: jobs, their failed attempts, workers, queues, gates, sleepers, counts.
-- Times are seconds since 1970. Partial indexes keep the cost of a claim independent of jobs
-- that have ended, and that of a commit independent of those that wait.

CREATE TABLE job (
    place INTEGER PRIMARY KEY,              -- order of enqueue
    id TEXT NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    region TEXT NOT NULL,
    priority INTEGER NOT NULL,              -- 0 normal, 2 urgent
    status TEXT NOT NULL,                   -- pending, processing, done, failed, cancelled
    scope TEXT NOT NULL,                    -- with queue and lane_priority: the lane
    lane_priority INTEGER NOT NULL,         -- 0 normal, 1 retry, 2 urgent, 3 retry of an urgent job
    due REAL NOT NULL,
    sequence INTEGER NOT NULL,              -- order of joining a lane
    delayed INTEGER NOT NULL DEFAULT 0,     -- 1: was put off when it joined its lane
    held INTEGER NOT NULL DEFAULT 0,        -- set aside 1: until its key has room, 2: while it awaits
    token INTEGER NOT NULL DEFAULT 0,       -- grows with each claim
    committed INTEGER NOT NULL DEFAULT 0,   -- the last token whose outcome was written
    retry_count INTEGER NOT NULL DEFAULT 0,
    replay INTEGER NOT NULL DEFAULT 0,
    snoozes INTEGER NOT NULL DEFAULT 0,
    trail TEXT NOT NULL DEFAULT '',         -- what its last failure left for the next attempt
    created_at REAL NOT NULL,
    started_at REAL,
    leased_at REAL,                         -- as started_at, but of a reclaim too
    last_retry_at REAL,
    ended_at REAL,
    expires_at REAL,
    worker TEXT,
    worker_region TEXT,
    unique_key TEXT,
    unique_in TEXT,                         -- the queue of the key, where it is not its own
    concurrency_key TEXT,
    concurrency_limit INTEGER NOT NULL DEFAULT 1,
    awaits INTEGER NOT NULL DEFAULT 0,      -- how many have yet to arrive before it may start
    gather TEXT,                            -- the job at which it arrives when it is done
    gather_index INTEGER NOT NULL DEFAULT 0,
    result TEXT,
    cancel_reason TEXT,
    body TEXT NOT NULL
);

-- The last columns of an index are there so that counts can be read from it alone.
CREATE INDEX job_lane ON job (queue, scope, lane_priority, due, sequence, status, held)
    WHERE status = 'pending' AND held = 0;

CREATE INDEX job_held ON job
    (held, concurrency_key, queue, scope, lane_priority, concurrency_limit, due, sequence, status)
    WHERE status = 'pending' AND held > 0;

CREATE INDEX job_delayed ON job (queue, due, status, delayed)
    WHERE status = 'pending' AND delayed = 1;

CREATE INDEX job_expires ON job (expires_at)
    WHERE status = 'pending' AND token = 0 AND expires_at IS NOT NULL;

CREATE INDEX job_running ON job (worker, started_at, sequence)
    WHERE status = 'processing';

CREATE UNIQUE INDEX job_unique ON job (coalesce(unique_in, queue), unique_key)
    WHERE unique_key IS NOT NULL AND (status = 'pending' OR status = 'processing');

-- One index serves prune, the dead letters of a queue, and the counts of what has ended.
CREATE INDEX job_ended ON job (queue, status, ended_at)
    WHERE status = 'done' OR status = 'failed' OR status = 'cancelled';

-- The newest failed or lost attempts of each job; a first-time success writes none.
CREATE TABLE attempt (
    place INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    replay INTEGER NOT NULL,
    region TEXT NOT NULL,
    worker TEXT NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    code TEXT,
    delay REAL,
    refused TEXT
);
CREATE INDEX attempt_job ON attempt (job);

-- The results that have arrived at a gathering job.
CREATE TABLE arrival (
    job TEXT NOT NULL,
    place INTEGER NOT NULL,
    result TEXT,
    PRIMARY KEY (job, place)
);

CREATE TABLE worker (
    place INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    region TEXT NOT NULL,
    lease REAL NOT NULL,
    beat_at REAL NOT NULL,
    joined_at REAL NOT NULL,
    body TEXT NOT NULL                      -- the whole worker as JSON
);

-- Every region that has had a worker.
CREATE TABLE region (name TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE queue (
    name TEXT PRIMARY KEY,
    settings TEXT,                          -- JSON; NULL: the default ones
    paused INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- What is counted: sums since ever, and by slots of a few seconds for what is recent.
CREATE TABLE tally (
    queue TEXT NOT NULL,
    region TEXT NOT NULL,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (queue, region, name)
) WITHOUT ROWID;

CREATE TABLE recent (
    queue TEXT NOT NULL,
    region TEXT NOT NULL,
    name TEXT NOT NULL,
    slot REAL NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (queue, region, name, slot)
) WITHOUT ROWID;

CREATE TABLE breaker (
    queue TEXT NOT NULL,
    region TEXT NOT NULL,
    open INTEGER NOT NULL,
    since REAL NOT NULL,                    -- when it last opened or closed
    probes INTEGER NOT NULL,                -- how many went well in a row, or below 0 failed
    probed_at REAL NOT NULL,                -- when the last one started
    PRIMARY KEY (queue, region)
) WITHOUT ROWID;

-- Small values that are kept for a while.
CREATE TABLE note (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    until REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX note_until ON note (until);

-- Which running jobs hold a permit of which Running gate or concurrency key.
CREATE TABLE permit (
    key TEXT NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (key, job)
) WITHOUT ROWID;
CREATE INDEX permit_job ON permit (job);

-- When jobs started that passed a Rate gate.
CREATE TABLE start (
    key TEXT NOT NULL,
    at REAL NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key, at)
) WITHOUT ROWID;

-- Workers that got less than they asked for: asleep until then unless rung before.
CREATE TABLE waiting (
    worker TEXT PRIMARY KEY,
    asleep INTEGER NOT NULL,
    rung INTEGER NOT NULL,
    until REAL NOT NULL,
    address TEXT,                           -- the socket where it hears the bell
    plan INTEGER NOT NULL                   -- changes when the lanes or gates below do
);
CREATE INDEX waiting_asleep ON waiting (worker) WHERE asleep = 1;

CREATE TABLE waiting_lane (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    worker TEXT NOT NULL,
    waited REAL NOT NULL,
    yields INTEGER NOT NULL,                -- 1: waits only while another sleeps that need not
    PRIMARY KEY (queue, scope, lane_priority, worker)
) WITHOUT ROWID;
CREATE INDEX waiting_lane_worker ON waiting_lane (worker);

CREATE TABLE waiting_gate (
    key TEXT NOT NULL,
    worker TEXT NOT NULL,
    PRIMARY KEY (key, worker)
) WITHOUT ROWID;
CREATE INDEX waiting_gate_worker ON waiting_gate (worker);

-- `epoch` grows with every change that alters plans, `sequence` with every job joining a lane.
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('epoch', 0), ('sequence', 0);
