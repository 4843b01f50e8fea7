-- A job is one row for life. Where it stands, who holds it and until when it is kept are tables of
-- their own, so that a claim and a commit change its row in place: no column that they change is in
-- an index of `job`, and its pages have room for two more versions of each row, one of which is
-- cleared away for the other. So both updates are HOT: they write no index entry.
-- Before, living and ended jobs had a table each, and a job was written anew with every step.

ALTER TABLE job RENAME TO living;
ALTER TABLE living DROP CONSTRAINT job_pkey;
ALTER TABLE ended RENAME TO over;
ALTER TABLE over DROP CONSTRAINT ended_pkey;
DROP INDEX job_lane, job_running, job_unique, job_held, job_expires, ended_prune, ended_failed;

-- Every job, whatever has become of it. `place` is its place among all jobs, `sequence` that in its
-- lane. `committed` is the last token whose outcome was written, `claimed` the claim that last
-- handed the job out, and `permits` are what it holds of gates while it is processing. `open_key`
-- is its unique key until it ends. `dead` is true of failed jobs, NULL of all others. A job with
-- `awaits` stands in no lane before so many others have arrived; one with `gather` arrives there,
-- at its `gather_index`, when it is done.
-- Columns of fixed width that are never NULL come first, then `id` and `queue`: an update looks at
-- the columns that are in indexes, and finds them quickest there.
CREATE TABLE job (
    place bigint NOT NULL,
    sequence bigint NOT NULL,
    due bigint NOT NULL,
    created_at bigint NOT NULL,
    retry_count integer NOT NULL DEFAULT 0,
    replay integer NOT NULL DEFAULT 0,
    snoozes integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    awaits integer NOT NULL DEFAULT 0,
    gather_index integer NOT NULL DEFAULT 0,
    concurrency_limit integer NOT NULL DEFAULT 1,
    priority smallint NOT NULL,
    lane_priority smallint NOT NULL,
    id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    region text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    delayed boolean NOT NULL DEFAULT false,
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
    worker_region text COLLATE "C",
    unique_key text COLLATE "C",
    unique_in text COLLATE "C",
    open_key text COLLATE "C",
    concurrency_key text COLLATE "C",
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
CREATE INDEX job_dead ON job (queue, place) WHERE dead;

-- Where each pending job stands. A lane is "queue, scope, priority" joined by U+001F, which no name
-- may hold. One that is `held` keeps its place and is passed over: its concurrency key is saturated
-- or, where there is no key in this row, it awaits others. `expires_at` is set until it has used an
-- attempt. `called`: a sleeper was rung for it.
CREATE TABLE waiting (
    due bigint NOT NULL,
    sequence bigint NOT NULL,
    expires_at bigint,
    concurrency_limit integer,
    held boolean NOT NULL DEFAULT false,
    called boolean NOT NULL DEFAULT false,
    delayed boolean NOT NULL DEFAULT false,
    lane text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    concurrency_key text COLLATE "C"
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
CREATE INDEX waiting_key ON waiting (concurrency_key, lane, concurrency_limit, due, sequence)
    WHERE held;
CREATE INDEX waiting_expires ON waiting (expires_at) WHERE expires_at IS NOT NULL;

-- The jobs that one claim handed to a worker; gone when none of them is `open` any more.
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
CREATE TABLE ended (
    number bigint PRIMARY KEY,
    ended_at bigint NOT NULL,
    ids text[] COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ended_at ON ended (ended_at);
-- Compressing lists of ids would cost more than writing them.
ALTER TABLE claimed ALTER COLUMN ids SET STORAGE EXTERNAL;
ALTER TABLE ended ALTER COLUMN ids SET STORAGE EXTERNAL;

-- Columns of `incoming` in which all jobs are alike are of length one now.
DELETE FROM incoming;
ALTER TABLE incoming ADD COLUMN many integer NOT NULL;

-- What a store has held until now.
INSERT INTO claimed (number, claimed_at, open, worker, ids)
SELECT nextval('counter'), coalesce(leased_at, 0), count(*), coalesce(worker, ''), array_agg(id)
FROM living WHERE status = 'processing' GROUP BY leased_at, worker;
INSERT INTO job (
    place, sequence, due, created_at, token, committed, claimed, started_at, last_retry_at,
    expires_at, retry_count, replay, snoozes, failures, awaits, gather_index, concurrency_limit,
    priority, lane_priority, delayed, status, id, queue, scope, region, task, worker_region,
    unique_key, unique_in, open_key, concurrency_key, gather, permits, trail, body)
SELECT place, CASE WHEN awaits > 0 THEN place ELSE sequence END, due, created_at, token, committed,
       (SELECT c.number FROM claimed c WHERE l.status = 'processing' AND l.id = ANY (c.ids)),
       started_at, last_retry_at, expires_at, retry_count, replay, snoozes, failures, awaits,
       gather_index, concurrency_limit, priority, lane_priority, delayed, status, id, queue, scope,
       region, task, worker_region, unique_key, unique_in, unique_key, concurrency_key, gather,
       permits, trail, body
FROM living l;
INSERT INTO waiting (due, sequence, expires_at, concurrency_limit, held, called, delayed, lane, id,
                     concurrency_key)
SELECT due, CASE WHEN awaits > 0 THEN place ELSE sequence END,
       CASE WHEN retry_count = 0 AND snoozes = 0 AND replay = 0 THEN expires_at END,
       CASE WHEN concurrency_key IS NOT NULL AND awaits = 0 THEN concurrency_limit END, held,
       called, delayed, queue || chr(31) || scope || chr(31) || lane_priority, id,
       CASE WHEN awaits = 0 THEN concurrency_key END
FROM living WHERE status = 'pending';
INSERT INTO job (
    place, sequence, due, created_at, token, committed, started_at, last_retry_at, ended_at,
    expires_at, retry_count, replay, snoozes, failures, awaits, gather_index, concurrency_limit,
    priority, lane_priority, dead, status, id, queue, scope, region, task, worker_region,
    unique_key, unique_in, concurrency_key, gather, cancel_reason, trail, body, result)
SELECT place, sequence, due, created_at, token, committed, started_at, last_retry_at, ended_at,
       expires_at, retry_count, replay, snoozes, failures, awaits, gather_index, concurrency_limit,
       priority, lane_priority, nullif(status = 'failed', false), status, id, queue, scope, region,
       task, worker_region, unique_key, unique_in, concurrency_key, gather, cancel_reason, trail,
       body, result
FROM over;
INSERT INTO ended (number, ended_at, ids)
SELECT nextval('counter'), ended_at, array_agg(id) FROM over WHERE status <> 'failed' GROUP BY 2;
DROP TABLE living, over;
