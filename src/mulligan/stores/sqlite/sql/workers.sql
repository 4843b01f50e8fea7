-- Workers and what they hold.

-- name: join
-- ?1 id, ?2 region, ?3 lease, ?4 and ?5 now, ?6 the worker as JSON, ?7 1 if it joins anew
INSERT INTO worker (id, region, lease, beat_at, joined_at, body)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET region = excluded.region, lease = excluded.lease, beat_at = excluded.beat_at,
    body = excluded.body,
    joined_at = CASE WHEN ? THEN excluded.joined_at ELSE joined_at END

-- name: leave
-- ?1 id
DELETE FROM worker WHERE id = ?

-- name: lives
-- ?1 id, ?2 now
-- gives a row if it beats
SELECT 1 FROM worker WHERE id = ? AND beat_at + lease > ?

-- name: add_region
-- ?1 name
-- changes nothing if it is known
INSERT INTO region (name) VALUES (?) ON CONFLICT DO NOTHING

-- name: held_by
-- ?1 worker
-- gives (id, token, leased_at, 1 if it was reclaimed) of the jobs that it holds, the longest running
-- first: only the lease of a claim begins with the attempt
SELECT
    job.id, running.token, running.leased_at, running.leased_at IS NOT running.started_at
FROM running
CROSS JOIN job ON job.number = running.number
WHERE running.worker = ?
ORDER BY running.started_at, job.sequence

-- name: next_holder
-- ?1 worker to go on after
-- gives the next worker that holds a job
SELECT worker FROM running WHERE worker > ? ORDER BY worker LIMIT 1

-- name: held_rows
-- ?1 worker, ?2 limit
-- gives the jobs it holds, the longest running first: started_at, sequence, number,
-- limits of which it holds permits, then the fields of Claim with the token that the reclaim will give
SELECT
    running.started_at, job.sequence, job.number,
    running.limits,
    {reclaimed}
FROM running
CROSS JOIN job ON job.number = running.number
WHERE running.worker = ?
ORDER BY running.started_at, job.sequence
LIMIT ?

-- name: reclaim
-- ?1 worker that reclaims, ?2 now, ?3 numbers, a JSON array
-- The attempt stays that of the worker that lost it; its permits are freed.
UPDATE running SET token = token + 1, worker = ?, leased_at = ?, limits = NULL
WHERE number IN (SELECT value FROM json_each(?))
