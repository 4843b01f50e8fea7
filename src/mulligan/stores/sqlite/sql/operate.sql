-- What operators and housekeeping do, what plans are made from, and what is counted.

-- name: expired
-- ?1 and ?2 now
-- gives (expires_at, number, id) of the first job to have expired in a lane, and held back from one
SELECT first.expires_at, first.number, job.id
FROM (
    SELECT * FROM (
        SELECT expires_at, number FROM lane WHERE expires_at <= ?
        ORDER BY expires_at, number LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT expires_at, number FROM held WHERE expires_at <= ?
        ORDER BY expires_at, number LIMIT 1
    )
) AS first
CROSS JOIN job ON job.number = first.number

-- name: prune
-- ?1 queue, ?2 status, ?3 ended before, ?4 limit
-- gives the numbers that were given up
DELETE FROM ended
WHERE number IN (
    SELECT number FROM ended
    WHERE queue = ? AND status = ? AND keep_until IS NULL AND ended_at < ?
    ORDER BY ended_at
    LIMIT ?
)
RETURNING number

-- name: prune_kept
-- ?1 queue, ?2 status, ?3 now, ?4 limit
-- gives the numbers of those that said how long they are kept, and were given up
DELETE FROM ended
WHERE number IN (
    SELECT number FROM ended
    WHERE queue = ? AND status = ? AND keep_until < ?
    ORDER BY keep_until
    LIMIT ?
)
RETURNING number

-- name: prune_notes
-- ?1 now
DELETE FROM note WHERE until <= ?

-- name: prune_counts
-- ?1 the first slot to keep
DELETE FROM recent_count WHERE slot < ?

-- name: prune_workers
-- ?1 stopped beating before
-- A worker that holds jobs is kept until they are reclaimed.
DELETE FROM worker
WHERE beat_at < ? AND NOT EXISTS (SELECT 1 FROM running WHERE running.worker = worker.id)

-- name: keep_note
-- ?1 key, ?2 value, ?3 until
INSERT INTO note (key, value, until) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until

-- name: forget_note
-- ?1 key
DELETE FROM note WHERE key = ?

-- name: list_notes
-- ?1 key to begin at, ?2 now
-- gives (key, value) of the notes from there on, in order of key
SELECT key, value FROM note WHERE key >= ? AND until > ? ORDER BY key

-- name: epoch
-- gives the epoch
SELECT CAST(coalesce((SELECT value FROM meta WHERE name = 'epoch'), 0) AS INTEGER)

-- name: regions
-- ?1 now
-- gives (region, a queue that a live worker of it serves, or NULL), in order of region
SELECT DISTINCT region.name, served.value
FROM region
LEFT JOIN worker ON worker.region = region.name AND worker.beat_at + worker.lease > ?
LEFT JOIN json_each(worker.body, '$.queues') AS served
ORDER BY region.name

-- name: queues
-- gives (name, settings as JSON or NULL, paused)
SELECT name, CAST(settings AS BLOB), paused FROM queue

-- name: configure
-- ?1 name, ?2 settings as JSON
INSERT INTO queue (name, settings) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings
WHERE settings IS NOT excluded.settings

-- name: pause
-- ?1 name, ?2 paused
INSERT INTO queue (name, paused) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused

-- name: count
-- ?1 queue, ?2 region, ?3 name, ?4 value
INSERT INTO total_count (queue, region, name, value) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, region, name) DO UPDATE SET value = value + excluded.value

-- name: count_recent
-- ?1 queue, ?2 region, ?3 name, ?4 start of the slot, ?5 value
INSERT INTO recent_count (queue, region, name, slot, value) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, region, name, slot) DO UPDATE SET value = value + excluded.value

-- name: counts
-- gives (queue, region, name, sum since ever)
SELECT queue, region, name, value FROM total_count

-- name: recent_counts
-- ?1 the first slot to look at
-- gives (queue, region, name, sum)
SELECT queue, region, name, sum(value) FROM recent_count WHERE slot >= ? GROUP BY queue, region, name

-- name: counted_in
-- ?1 the first slot to look at
-- gives each (queue, region) of which something was counted since
SELECT DISTINCT queue, region FROM recent_count WHERE slot >= ?

-- name: attempts
-- ?1 queue, ?2 region, ?3 the first slot to look at
-- gives (attempts that succeeded, that failed)
SELECT
    total(value) FILTER (WHERE name = 'succeeded'),
    total(value) FILTER (WHERE name = 'failed')
FROM recent_count
WHERE queue = ? AND region = ? AND name IN ('succeeded', 'failed') AND slot >= ?

-- name: breakers
-- gives (queue, region, open, since, probes, probed_at)
SELECT queue, region, open, since, probes, probed_at FROM breaker

-- name: switch
-- ?1 queue, ?2 region, ?3 open, ?4 since, ?5 probes, ?6 probed_at
INSERT INTO breaker (queue, region, open, since, probes, probed_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, region) DO UPDATE
SET open = excluded.open, since = excluded.since, probes = excluded.probes,
    probed_at = excluded.probed_at
