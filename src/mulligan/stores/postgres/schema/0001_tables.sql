-- The tables. Times are microseconds since 1970 in the server's clock; the view `overview` shows
-- them as timestamps. Names compare by bytes ("C"): quick, and the same on every server.

-- One row: `epoch` grows with every change that alters plans.
CREATE TABLE state (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch integer NOT NULL DEFAULT 0
);
INSERT INTO state DEFAULT VALUES;

-- Numbers a job's place in its lane, and by the first of them its place among all jobs.
CREATE SEQUENCE counter;

-- Jobs that have not ended: pending or processing. A pending one that is `held` stands in no lane:
-- its concurrency key is saturated, or it awaits so many others (`awaits`) that have yet to arrive.
-- A job with `gather` arrives there, at its `gather_index`, when it is done.
CREATE TABLE job (
    place bigint NOT NULL,
    sequence bigint NOT NULL,
    due bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    leased_at bigint,
    last_retry_at bigint,
    token integer NOT NULL DEFAULT 0,
    committed integer NOT NULL DEFAULT 0,
    retry_count integer NOT NULL DEFAULT 0,
    replay integer NOT NULL DEFAULT 0,
    snoozes integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    concurrency_limit integer NOT NULL DEFAULT 1,
    awaits integer NOT NULL DEFAULT 0,
    gather_index integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    lane_priority smallint NOT NULL,
    delayed boolean NOT NULL DEFAULT false,
    held boolean NOT NULL DEFAULT false,
    called boolean NOT NULL DEFAULT false,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    worker text COLLATE "C",
    worker_region text COLLATE "C",
    unique_key text COLLATE "C",
    unique_in text COLLATE "C",
    concurrency_key text COLLATE "C",
    gather text COLLATE "C",
    permits text COLLATE "C",
    trail text NOT NULL DEFAULT '',
    body bytea NOT NULL,
    CONSTRAINT job_pkey PRIMARY KEY (id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    vacuum_truncate = false
);
CREATE INDEX job_lane ON job (queue, scope, lane_priority, due, sequence)
    WHERE status = 'pending' AND NOT held;
CREATE INDEX job_running ON job (worker) WHERE status = 'processing';
CREATE UNIQUE INDEX job_unique ON job (coalesce(unique_in, queue), unique_key)
    WHERE unique_key IS NOT NULL;
CREATE INDEX job_held ON job (concurrency_key, due, sequence) WHERE held;
CREATE INDEX job_expires ON job (expires_at)
    WHERE status = 'pending' AND token = 0 AND expires_at IS NOT NULL;

-- Jobs that have ended: done, failed or cancelled. Rows are added and deleted, never changed.
CREATE TABLE ended (
    place bigint NOT NULL,
    sequence bigint NOT NULL,
    due bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    started_at bigint,
    last_retry_at bigint,
    ended_at bigint NOT NULL,
    token integer NOT NULL,
    committed integer NOT NULL,
    retry_count integer NOT NULL,
    replay integer NOT NULL,
    snoozes integer NOT NULL,
    failures integer NOT NULL,
    concurrency_limit integer NOT NULL,
    awaits integer NOT NULL,
    gather_index integer NOT NULL,
    priority smallint NOT NULL,
    lane_priority smallint NOT NULL,
    status text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    worker_region text COLLATE "C",
    unique_key text COLLATE "C",
    unique_in text COLLATE "C",
    concurrency_key text COLLATE "C",
    gather text COLLATE "C",
    cancel_reason text,
    trail text NOT NULL,
    body bytea NOT NULL,
    result bytea,
    CONSTRAINT ended_pkey PRIMARY KEY (id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000,
    vacuum_truncate = false
);
CREATE INDEX ended_prune ON ended (ended_at) WHERE status <> 'failed';
CREATE INDEX ended_failed ON ended (queue, place) WHERE status = 'failed';

-- Failed and lost attempts; `failure` is the attempt as JSON. A claim never reads this.
CREATE TABLE attempt (
    job text COLLATE "C" NOT NULL,
    ordinal integer NOT NULL,
    failure jsonb NOT NULL,
    PRIMARY KEY (job, ordinal)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The results that have arrived at a gathering job; they are deleted with it.
CREATE TABLE arrival (
    job text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    result bytea,
    PRIMARY KEY (job, place)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- How many permits of a key are out (`used`), and how many starts its window holds (`started`).
CREATE TABLE gate (
    key text COLLATE "C" PRIMARY KEY,
    used integer NOT NULL DEFAULT 0,
    started bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE start (
    gate text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    count integer NOT NULL,
    PRIMARY KEY (gate, at)
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

-- What is counted: since ever (`tally`), and in slots of a few seconds that begin at `start`. A
-- region whose attempts mostly fail has an open breaker in the queue.
CREATE TABLE tally (
    queue text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value float8 NOT NULL,
    PRIMARY KEY (queue, region, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE slot (
    queue text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    value float8 NOT NULL,
    PRIMARY KEY (queue, region, name, start)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX slot_recent ON slot (start, queue, region);
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

-- Workers whose last claim gave less than they asked for: what would be news to them, until when
-- they sleep by themselves, and the channel to ring. One that is `waiting` is asleep, or was rung
-- and has not claimed since. Lanes are "queue, scope, priority" joined by U+001F, which no name may
-- hold; `watched` are those lanes whose gates were open.
CREATE TABLE sleeper (
    worker text COLLATE "C" PRIMARY KEY,
    place bigint NOT NULL,
    waiting boolean NOT NULL DEFAULT true,
    asleep boolean NOT NULL DEFAULT true,
    rung boolean NOT NULL DEFAULT false,
    until bigint NOT NULL,
    channel text NOT NULL,
    lanes text[] COLLATE "C" NOT NULL,
    waits bigint[] NOT NULL,
    yields boolean[] NOT NULL,
    watched boolean[] NOT NULL,
    gates text[] COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

-- Jobs that came in a transaction of the caller's own: a deferred trigger rings for them when it
-- commits, and deletes the row in the same breath.
CREATE UNLOGGED TABLE incoming (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
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
