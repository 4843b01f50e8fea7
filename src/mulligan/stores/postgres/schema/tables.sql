-- The tables of schema version 1. Times are microseconds since 1970 by the server's clock; the view
-- `overview` shows them as timestamps. Names compare by bytes ("C"): quick, and the same on every
-- server.

-- One row: the version of these tables, and a digest of the functions that were made last.
CREATE TABLE schema_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version integer NOT NULL,
    functions text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row: `epoch` grows with every change that alters plans.
CREATE TABLE state (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch integer NOT NULL DEFAULT 0
);
INSERT INTO state DEFAULT VALUES;

-- Rows that never change: who debounces a key locks that of its hash, see lock_debounced.
CREATE TABLE debounce_lock (slot integer PRIMARY KEY);
INSERT INTO debounce_lock SELECT generate_series(0, 255);

-- Gives every number: of jobs, of claims, of what ended together, of sleepers, and sequences in
-- lanes.
CREATE SEQUENCE counter;

-- Every job, one row for life.
-- number       its number among all jobs; `sequence` is its turn in its lane
-- committed    the last token whose outcome was written
-- claimed      the claim that last handed the job out
-- permits      the keys of the plan's limits that it holds while it is processing
-- limits       JSON: the cost of each limit that it names; `holds` are those of which it has permits
--              while it is processing, as they were when it started
-- open_key     its unique key, while it has it
-- debounce_until   enqueuing again with its key puts it off no longer than this
-- unique_until     it has its key until then, even if it has ended
-- dead         true of failed jobs, NULL of all others
-- awaits       it waits in no lane before so many others have arrived
-- gather       the job at which it arrives, at its `gather_index`, when it is done
-- return_exceptions   failures of those that it gathers arrive too, as values; members_failed and
--              members_cancelled are how many have ended so
-- keep         for how many seconds it is kept when it is done or cancelled, if it says so
--
-- A claim and a commit change the row in place: no column that they change is in an index, and
-- pages have room for two more versions of each row, one of which is cleared away for the other. So
-- both updates are HOT: they write no index entry.
-- Columns of fixed width that are never NULL come first, then `id` and `queue`: an update looks at
-- the columns that are in indexes, and finds them quickest there.
CREATE TABLE job (
    number bigint NOT NULL,
    sequence bigint NOT NULL,
    due bigint NOT NULL,
    created_at bigint NOT NULL,
    retry_count integer NOT NULL DEFAULT 0,
    replay integer NOT NULL DEFAULT 0,
    snoozes integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    awaits integer NOT NULL DEFAULT 0,
    gather_index integer NOT NULL DEFAULT 0,
    members_failed integer NOT NULL DEFAULT 0,
    members_cancelled integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    lane_priority smallint NOT NULL,
    id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    delayed boolean NOT NULL DEFAULT false,
    return_exceptions boolean NOT NULL DEFAULT false,
    trail text NOT NULL DEFAULT '',
    body bytea NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    token bigint NOT NULL,
    committed bigint NOT NULL DEFAULT 0,
    dead boolean,
    claimed bigint,
    started_at bigint,
    last_retry_at bigint,
    ended_at bigint,
    expires_at bigint,
    debounce_until bigint,
    unique_until bigint,
    keep integer,
    worker_region text COLLATE "C",
    unique_key text COLLATE "C",
    unique_in text COLLATE "C",
    open_key text COLLATE "C",
    limits text,
    fairness_key text COLLATE "C",
    holds text,
    gather text COLLATE "C",
    permits text COLLATE "C",
    cancel_reason text,
    result bytea,
    CONSTRAINT job_pkey PRIMARY KEY (id)
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000,
    vacuum_truncate = false
);
CREATE UNIQUE INDEX job_unique ON job (coalesce(unique_in, queue), open_key)
    WHERE open_key IS NOT NULL;
CREATE INDEX job_dead ON job (queue, number) WHERE dead;

-- Which lane each pending job waits in. A lane is "queue, scope, priority" joined by U+001F, which
-- no name may hold. One that is `held` does not stand in the lane itself: it stands in one of its
-- lines or, where there is no `line` in this row, it awaits others. A line of 0 is none yet: the job
-- came in a transaction of the caller's own, and the next claim lets it join its line, which is that
-- of its `limits` and fairness key. `expires_at` is set until it has used an attempt. `woken`: a
-- sleeper was woken for it.
CREATE TABLE waiting (
    due bigint NOT NULL,
    sequence bigint NOT NULL,
    expires_at bigint,
    line bigint,
    held boolean NOT NULL DEFAULT false,
    woken boolean NOT NULL DEFAULT false,
    delayed boolean NOT NULL DEFAULT false,
    lane text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    limits text
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    vacuum_truncate = false
);
-- By the hash of the lane, which is far quicker to compare than its name.
CREATE INDEX waiting_lane ON waiting (hashtextextended(lane, 0), held, due, sequence);
CREATE INDEX waiting_line ON waiting (line, due, sequence) WHERE line IS NOT NULL;
CREATE INDEX waiting_expires ON waiting (expires_at) WHERE expires_at IS NOT NULL;

-- Lanes of which jobs stand in lines. `turn` is the highest in which a job has started since the
-- lane has fairness keys; `lines` is how many it has, and `keyed` how many of these have a key.
CREATE TABLE lined_lane (
    id bigint PRIMARY KEY,
    turn bigint NOT NULL DEFAULT 0,
    lines integer NOT NULL DEFAULT 0,
    keyed integer NOT NULL DEFAULT 0,
    lane text COLLATE "C" NOT NULL UNIQUE
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

-- The lines of these lanes, as core/lines.py has them.
-- due, sequence, costs   of its first job
-- turn                   that of its key when it first began to wait; -1 if it has not
-- stage                  later, ready, waiting
-- name                   its fairness key or '', and the names of its limits, joined by U+001F
-- waits_for              the limit where it waits
-- woken                  a sleeper was woken for its first job
CREATE TABLE line (
    id bigint PRIMARY KEY,
    lane bigint NOT NULL,
    due bigint NOT NULL,
    sequence bigint NOT NULL,
    turn bigint NOT NULL DEFAULT -1,
    woken boolean NOT NULL DEFAULT false,
    stage text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    waits_for text COLLATE "C",
    name text COLLATE "C" NOT NULL,
    names text[] COLLATE "C" NOT NULL,
    costs bigint[] NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX line_name ON line (lane, hashtextextended(name, 0));
CREATE INDEX line_later ON line (lane, due, sequence) WHERE stage = 'later';
-- A key has one line that names no limits, which is found by its name.
CREATE INDEX line_ready ON line (lane, key, due, sequence) WHERE stage = 'ready' AND names <> '{}';
CREATE INDEX line_waiting ON line (waits_for, lane, turn, due, sequence)
    WHERE waits_for IS NOT NULL;

-- The turns of fairness keys; due, sequence and line are those of its first line that is ready.
CREATE TABLE fairness_key (
    lane bigint NOT NULL,
    turn bigint NOT NULL,
    due bigint,
    sequence bigint,
    line bigint,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (lane, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX fairness_key_turn ON fairness_key (lane, turn, due, sequence) WHERE due IS NOT NULL;
CREATE INDEX fairness_key_idle ON fairness_key (lane, turn) WHERE due IS NULL;

-- When a limit may have room again for a lane of which lines wait there.
CREATE TABLE alarm (
    lane bigint NOT NULL,
    at bigint NOT NULL,
    woken boolean NOT NULL DEFAULT false,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (lane, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX alarm_at ON alarm (lane, at, name);

-- Limits that jobs name: what an app declares, and what an operator set instead, as JSON; then what
-- holds of both. `per` is in microseconds.
CREATE TABLE named_limit (
    name text COLLATE "C" PRIMARY KEY,
    concurrency bigint,
    rate bigint,
    per bigint NOT NULL,
    burst bigint,
    pauses boolean NOT NULL,
    declared text,
    set_instead text
);
CREATE INDEX named_limit_pattern ON named_limit (name) WHERE name LIKE '%*';

-- What is used of each name, as core/limits.py has it: permits, the starts of its window with their
-- costs, when its bucket is full again, and until when it is paused.
CREATE TABLE limit_state (
    used bigint NOT NULL DEFAULT 0,
    full_at bigint NOT NULL DEFAULT 0,
    paused_until bigint NOT NULL DEFAULT 0,
    name text COLLATE "C" PRIMARY KEY,
    starts bigint[] NOT NULL DEFAULT '{}',
    start_costs bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

-- The jobs that one claim handed to a worker; deleted when none of them is `open` any more.
CREATE TABLE claimed (
    number bigint PRIMARY KEY,
    claimed_at bigint NOT NULL,
    open integer NOT NULL,
    worker text COLLATE "C" NOT NULL,
    ids text[] COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX claimed_worker ON claimed (worker);

-- Done and cancelled jobs that ended together: they are deleted when they have been kept so long.
-- until        when that is over, of jobs that say how long they are kept
CREATE TABLE ended (
    number bigint PRIMARY KEY,
    ended_at bigint NOT NULL,
    until bigint,
    ids text[] COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ended_at ON ended (ended_at) WHERE until IS NULL;
CREATE INDEX ended_until ON ended (until) WHERE until IS NOT NULL;
-- Compressing lists of ids would cost more than writing them.
ALTER TABLE claimed ALTER COLUMN ids SET STORAGE EXTERNAL;
ALTER TABLE ended ALTER COLUMN ids SET STORAGE EXTERNAL;

-- How many ended jobs are kept. `kept` is what was counted when it was last folded, `kept_change`
-- what has changed since: whoever ends or deletes jobs adds a row, and never waits for another to
-- do the same. Together they are exact.
CREATE TABLE kept (
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    many bigint NOT NULL,
    PRIMARY KEY (queue, status)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE kept_change (
    many bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

-- Failed and lost attempts; `failure` is the attempt as JSON, without its traceback: who lists jobs
-- reads it. A claim never reads this.
CREATE TABLE attempt (
    job text COLLATE "C" NOT NULL,
    ordinal integer NOT NULL,
    failure jsonb NOT NULL,
    traceback text,
    PRIMARY KEY (job, ordinal)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The results that have arrived at a gathering job, by `gather_index`, and failures as
-- core/gather.py has them: at -1 - gather_index if they are only noted. They are deleted with it.
CREATE TABLE arrival (
    job text COLLATE "C" NOT NULL,
    gather_index integer NOT NULL,
    result bytea,
    PRIMARY KEY (job, gather_index)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- What jobs have recorded; deleted with them. `key` is step:NAME, log:TOKEN:NUMBER, progress or
-- checkpoint; `token` and `number` say which is newer; `value` is JSON.
CREATE TABLE recorded (
    job text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    number integer NOT NULL,
    at bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (job, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- What is used of the limits of plans, by their key: how many permits are out (`used`), and how many
-- starts its window holds (`started`), which are the rows of `start`.
CREATE TABLE limit_use (
    key text COLLATE "C" PRIMARY KEY,
    used integer NOT NULL DEFAULT 0,
    started bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE start (
    key text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    count integer NOT NULL,
    PRIMARY KEY (key, at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

-- Workers, by their last heartbeat; `self` is the worker as it presented itself.
CREATE TABLE worker (
    id text COLLATE "C" PRIMARY KEY,
    region text COLLATE "C" NOT NULL,
    lease bigint NOT NULL,
    beat_at bigint NOT NULL,
    joined_at bigint NOT NULL,
    self jsonb NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE region (name text COLLATE "C" PRIMARY KEY);
CREATE TABLE queue (
    name text COLLATE "C" PRIMARY KEY,
    settings text,
    paused boolean NOT NULL DEFAULT false
);

-- What is counted: ever, and recently in slots of a few seconds that begin at `start`.
CREATE TABLE count_ever (
    queue text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value float8 NOT NULL,
    PRIMARY KEY (queue, region, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE count_recent (
    queue text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    value float8 NOT NULL,
    PRIMARY KEY (queue, region, name, start)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX count_recent_start ON count_recent (start, queue, region);

-- A region whose attempts mostly fail has an open breaker in the queue.
CREATE TABLE breaker (
    queue text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    open boolean NOT NULL,
    since bigint NOT NULL,
    probes integer NOT NULL,      -- how many went well in a row, or below 0 failed
    probed_at bigint NOT NULL,    -- when the last one started
    PRIMARY KEY (queue, region)
);

-- Small values that are kept until some time.
CREATE TABLE note (
    key text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL,
    until bigint NOT NULL
) WITH (fillfactor = 50);

-- Calls that run by themselves: what core/schedule.py keeps of each, as JSON.
CREATE TABLE schedule (
    name text COLLATE "C" PRIMARY KEY,
    record text NOT NULL
);

-- Workers whose last claim gave less than they asked for: which lanes and which keys of limits
-- would be news to them, until when they sleep by themselves, and the channel to notify. One that
-- is `waiting` is asleep, or was woken and has not claimed since. `woken`: it was woken and has not
-- looked since. `watched` are those lanes whose limits had room. `number` says who fell asleep
-- first.
CREATE TABLE sleeper (
    worker text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    waiting boolean NOT NULL DEFAULT true,
    asleep boolean NOT NULL DEFAULT true,
    woken boolean NOT NULL DEFAULT false,
    until bigint NOT NULL,
    channel text NOT NULL,
    lanes text[] COLLATE "C" NOT NULL,
    waits bigint[] NOT NULL,
    yields boolean[] NOT NULL,
    watched boolean[] NOT NULL,
    limits text[] COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

-- Jobs that came in a transaction of the caller's own: a deferred trigger wakes sleepers for them
-- when it commits, and deletes the row in the same moment.
CREATE UNLOGGED TABLE incoming (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    many integer NOT NULL,
    queues text[] COLLATE "C" NOT NULL,
    regions text[] COLLATE "C" NOT NULL,
    priorities smallint[] NOT NULL,
    delays bigint[] NOT NULL,
    awaits integer[],
    before text[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Inserts into `inbox` that were no valid job, each with the reason.
CREATE TABLE refused (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason text NOT NULL,
    job jsonb NOT NULL
);
