-- Everything a store keeps. Times are seconds since 1970.
--
-- A job is written once, and again only when it is put off. Where it stands is a row of one of four
-- small tables: in its `lane`, `held` back from it, `running` or `ended`. So a claim moves a row
-- from lane to running, and a commit from running to ended, and neither rewrites the job. These
-- tables are strict: no hand and no other program can put a value of another kind into them.

CREATE TABLE job (
    number INTEGER PRIMARY KEY,             -- order of enqueue
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
    token INTEGER NOT NULL,                 -- of its last claim before it joined; begins at number * 4096
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
    key_queue TEXT,                         -- the queue of the key while the job has it
    debounce_until REAL,                    -- enqueuing again puts it off no longer than this
    unique_until REAL,                      -- it has its key until then, even if it has ended
    limits TEXT,                            -- JSON: the cost of each limit that it names
    fairness_key TEXT,
    awaits INTEGER NOT NULL DEFAULT 0,      -- how many have yet to arrive before it may start
    gather TEXT,                            -- the job at which it arrives when it is done
    gather_index INTEGER NOT NULL DEFAULT 0,
    return_exceptions INTEGER NOT NULL DEFAULT 0,   -- 1: failures arrive at it too, as values
    members_failed INTEGER NOT NULL DEFAULT 0,      -- how many that it gathers have ended so
    members_cancelled INTEGER NOT NULL DEFAULT 0,
    keep INTEGER,                           -- for how many seconds it is kept when it has ended
    body BLOB NOT NULL                      -- JSON; changes only while it is debounced
) STRICT;

CREATE UNIQUE INDEX job_unique ON job (key_queue, unique_key) WHERE key_queue IS NOT NULL;

-- Jobs that are pending, in the order in which they start. One that has not started may expire.
CREATE TABLE lane (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    due REAL NOT NULL,
    sequence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    delayed INTEGER NOT NULL,
    expires_at REAL,
    PRIMARY KEY (queue, scope, lane_priority, due, sequence)
) WITHOUT ROWID, STRICT;

CREATE INDEX lane_delayed ON lane (queue, due, delayed) WHERE delayed = 1;
CREATE INDEX lane_expires ON lane (expires_at, number) WHERE expires_at IS NOT NULL;

-- Jobs that are pending and stand in no lane: in one of its lines, or until others have arrived.
CREATE TABLE held (
    number INTEGER PRIMARY KEY,
    why TEXT NOT NULL,                      -- line, arrivals
    line TEXT,                              -- which one of its lane: as text_of in lines.py says
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    due REAL NOT NULL,
    sequence INTEGER NOT NULL,
    delayed INTEGER NOT NULL,
    expires_at REAL
) STRICT;

CREATE INDEX held_line ON held (why, queue, scope, lane_priority, line, due, sequence);
CREATE INDEX held_due ON held (queue, scope, lane_priority, due, sequence) WHERE why = 'line';
CREATE INDEX held_expires ON held (expires_at, number) WHERE expires_at IS NOT NULL;

CREATE TABLE running (
    number INTEGER PRIMARY KEY,
    worker TEXT NOT NULL,
    worker_region TEXT,
    token INTEGER NOT NULL,
    started_at REAL,
    leased_at REAL,                         -- as started_at, but of a reclaim too
    limits TEXT                             -- those of which it holds permits, as in job
) STRICT;

CREATE INDEX running_worker ON running (worker);

CREATE TABLE ended (
    number INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,                   -- done, failed, cancelled
    ended_at REAL NOT NULL,
    token INTEGER NOT NULL,
    started_at REAL,                        -- of the attempt that it ended, as worker_region
    worker_region TEXT,
    result TEXT,
    cancel_reason TEXT,
    keep_until REAL                         -- set where the job says how long it is kept
) STRICT;

-- One index serves prune, the dead letters of a queue, and the counts of what has ended.
CREATE INDEX ended_queue ON ended (queue, status, keep_until, ended_at);

-- The newest failed or lost attempts of each job; a first-time success writes none.
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    number INTEGER NOT NULL,                -- of the attempt, from 1
    replay INTEGER NOT NULL,
    region TEXT NOT NULL,
    worker TEXT NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    code TEXT,
    delay REAL,
    refused TEXT,
    traceback TEXT                          -- last: who reads the other columns does not read it
);
CREATE INDEX attempt_job ON attempt (job);

-- The results that have arrived at a gathering job, and failures as core/gather.py has them: at
-- -1 - gather_index if they are only noted.
CREATE TABLE arrival (
    job TEXT NOT NULL,
    gather_index INTEGER NOT NULL,
    result TEXT,
    PRIMARY KEY (job, gather_index)
);

-- What jobs have recorded: results of steps, progress, log lines, a checkpoint.
CREATE TABLE recorded (
    job TEXT NOT NULL,
    key TEXT NOT NULL,                      -- step:NAME, log:TOKEN:NUMBER, progress, checkpoint
    token INTEGER NOT NULL,                 -- of the attempt that recorded it, as number
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    value BLOB NOT NULL,                    -- JSON
    PRIMARY KEY (job, key)
) STRICT;

CREATE TABLE worker (
    number INTEGER PRIMARY KEY,             -- order of joining
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
CREATE TABLE total_count (
    queue TEXT NOT NULL,
    region TEXT NOT NULL,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (queue, region, name)
) WITHOUT ROWID;

CREATE TABLE recent_count (
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

-- Calls that run by themselves: what core/schedule.py keeps of each, as JSON.
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    record TEXT NOT NULL
) WITHOUT ROWID, STRICT;

-- Which running jobs hold a permit of which cap.
CREATE TABLE permit (
    key TEXT NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (key, job)
) WITHOUT ROWID;
CREATE INDEX permit_job ON permit (job);

-- The lines of each lane that have jobs and name limits: who is first, and where the line stands.
CREATE TABLE line (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    key TEXT NOT NULL,                      -- the fairness key, or ''
    line TEXT NOT NULL,                     -- as in held
    due REAL NOT NULL,                      -- of its first job, as sequence and costs
    sequence INTEGER NOT NULL,
    costs TEXT NOT NULL,
    turn INTEGER NOT NULL,                  -- of its key when it first began to wait, or -1
    stage TEXT NOT NULL,                    -- later, ready, waiting
    waits_for TEXT,                         -- the limit where it waits
    PRIMARY KEY (queue, scope, lane_priority, key, line)
) WITHOUT ROWID, STRICT;
CREATE INDEX line_later ON line (queue, scope, lane_priority, due, sequence)
    WHERE stage = 'later';
CREATE INDEX line_ready ON line (queue, scope, lane_priority, key, due, sequence)
    WHERE stage = 'ready';
CREATE INDEX line_waiting ON line (waits_for, queue, scope, lane_priority, turn, due, sequence)
    WHERE waits_for IS NOT NULL;

-- The turns of fairness keys, the first ready line of each that has one, and its line that names no
-- limits: where there are many keys, most lines are such, and need no row of their own.
CREATE TABLE fairness_key (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    key TEXT NOT NULL,
    turn INTEGER NOT NULL,
    due REAL,                               -- of the first job of its ready lines, as sequence
    sequence INTEGER,
    line_due REAL,                          -- of the first job of its line without limits
    line_sequence INTEGER,
    line_stage TEXT,                        -- later, ready
    PRIMARY KEY (queue, scope, lane_priority, key)
) WITHOUT ROWID, STRICT;
CREATE INDEX fairness_key_turn ON fairness_key (queue, scope, lane_priority, turn, due, sequence)
    WHERE due IS NOT NULL;
CREATE INDEX fairness_key_idle ON fairness_key (queue, scope, lane_priority, turn)
    WHERE due IS NULL AND line_due IS NULL;
CREATE INDEX fairness_key_later ON fairness_key (
    queue, scope, lane_priority, line_due, line_sequence
) WHERE line_stage = 'later';

-- The highest turn that has started in a lane with fairness keys.
CREATE TABLE lane_turn (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    PRIMARY KEY (queue, scope, lane_priority)
) WITHOUT ROWID, STRICT;

-- When a limit may have room again for a lane that waits there.
CREATE TABLE alarm (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    limit_name TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (queue, scope, lane_priority, limit_name)
) WITHOUT ROWID, STRICT;
CREATE INDEX alarm_at ON alarm (queue, scope, lane_priority, at, limit_name);

-- Limits that jobs name, as JSON: what an app declares, and what an operator set instead.
CREATE TABLE named_limit (
    name TEXT PRIMARY KEY,
    declared TEXT,
    set_instead TEXT
) WITHOUT ROWID, STRICT;

-- What is used of each name; times in microseconds.
CREATE TABLE limit_state (
    name TEXT PRIMARY KEY,
    used INTEGER NOT NULL,                  -- permits
    starts TEXT NOT NULL,                   -- JSON: [when, cost] of the window
    full_at INTEGER NOT NULL,               -- when the bucket is full again
    paused_until REAL NOT NULL
) WITHOUT ROWID, STRICT;

-- When jobs started that a rate of a plan counts.
CREATE TABLE start (
    key TEXT NOT NULL,
    at REAL NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key, at)
) WITHOUT ROWID;

-- Workers that got less than they asked for: asleep until then unless woken before.
CREATE TABLE sleeper (
    worker TEXT PRIMARY KEY,
    asleep INTEGER NOT NULL,
    woken INTEGER NOT NULL,                 -- 1: was woken since its last claim
    until REAL NOT NULL,
    socket TEXT,                            -- the path of the socket that it listens at
    plan INTEGER NOT NULL                   -- changes when the lanes or limits below do
);
CREATE INDEX sleeper_asleep ON sleeper (worker) WHERE asleep = 1;

CREATE TABLE sleeper_lane (
    queue TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane_priority INTEGER NOT NULL,
    worker TEXT NOT NULL,
    waited REAL NOT NULL,
    yields INTEGER NOT NULL,                -- 1: waits only while another sleeps that need not
    PRIMARY KEY (queue, scope, lane_priority, worker)
) WITHOUT ROWID;
CREATE INDEX sleeper_lane_worker ON sleeper_lane (worker);

CREATE TABLE sleeper_limit (
    key TEXT NOT NULL,
    worker TEXT NOT NULL,
    PRIMARY KEY (key, worker)
) WITHOUT ROWID;
CREATE INDEX sleeper_limit_worker ON sleeper_limit (worker);

-- Jobs of producers in other languages that the inbox could not accept.
CREATE TABLE refused (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    reason TEXT NOT NULL,
    task, args, kwargs, queue, region, delay, priority, id, unique_key, retry, keep
);

-- Where the inbox puts a job together; empty outside its trigger.
CREATE TABLE incoming (
    now REAL, reason TEXT, number INTEGER, body TEXT, due REAL, lane_priority INTEGER,
    id TEXT, queue TEXT, region TEXT
);

-- `epoch` grows with every change that alters plans. Every job that joins a lane is given a sequence
-- number, the next after `sequence` and the greatest number of a job: so a new job need not write
-- here, and only who gives numbers to others, or deletes jobs, does.
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('epoch', 0), ('sequence', 0);
