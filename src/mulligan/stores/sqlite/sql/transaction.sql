-- What operations share: the store's two counters, how jobs that have ended leave their tables, and tokens that another program set to the last number there is.

-- fragment: sequence
max(
    coalesce((
        SELECT value FROM meta
        -- A number that another program wrote is no use unless tokens can begin at 4096 times it.
        WHERE name = 'sequence' AND typeof(value) = 'integer' AND value BETWEEN 0 AND 1e15
    ), 0),
    coalesce((SELECT max(number) FROM job), 0)
)

-- name: last_number
-- gives the last sequence number that was given, of a job or kept in `meta`, and 1 if any worker sleeps
SELECT
    {sequence},
    EXISTS (SELECT 1 FROM sleeper WHERE asleep = 1)

-- name: reserve
-- ?1 how many sequence numbers to reserve
-- gives the last of them
INSERT INTO meta (name, value) VALUES ('sequence', {sequence} + ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
RETURNING value

-- name: keep_number
-- ?1 a sequence number that was given, and is no job's
INSERT INTO meta (name, value) VALUES ('sequence', max({sequence}, ?))
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: anyone_asleep
-- gives 1 if any worker sleeps
SELECT EXISTS (SELECT 1 FROM sleeper WHERE asleep = 1)

-- name: next_epoch
INSERT INTO meta (name, value) VALUES ('epoch', 1)
ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1

-- name: leave_running
-- ?1 numbers, a JSON array
DELETE FROM running WHERE number IN (SELECT value FROM json_each(?))

-- name: any_unique_key
-- gives 1 if any job has a unique key and has not ended
SELECT EXISTS (SELECT 1 FROM job WHERE key_queue IS NOT NULL)

-- name: free_unique_keys
-- ?1 numbers, a JSON array, ?2 now
-- Others may have the unique keys of these jobs, which have ended, but for a throttled one whose time
-- is not over and that was not cancelled.
UPDATE job SET key_queue = NULL
WHERE number IN (SELECT value FROM json_each(?)) AND key_queue IS NOT NULL
    AND (
        unique_until IS NULL OR unique_until <= ?
        OR EXISTS (SELECT 1 FROM ended WHERE ended.number = job.number AND status = 'cancelled')
    )

-- name: renew
-- ?1 token
UPDATE job SET token = ? WHERE token = 9223372036854775807

-- name: renew_running
-- ?1 token
UPDATE running SET token = ? WHERE token = 9223372036854775807
