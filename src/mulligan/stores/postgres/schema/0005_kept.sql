-- How many ended jobs are kept is known without counting them. `kept` is what was counted when it
-- was last folded, `kept_change` what has changed since: whoever ends or deletes jobs adds a row,
-- and never waits for another to do the same. Together they are exact.
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

-- Nobody ends a job while they are counted. A call of an older function that waits for this would
-- not count what it ends: it misses the column, fails, and is tried again.
LOCK TABLE job IN SHARE ROW EXCLUSIVE MODE;
ALTER TABLE ended RENAME COLUMN ids TO jobs;
INSERT INTO kept (queue, status, many)
SELECT queue, status, count(*) FROM job WHERE ended_at IS NOT NULL GROUP BY 1, 2;
