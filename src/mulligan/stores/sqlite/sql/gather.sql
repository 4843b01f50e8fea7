-- Fan-in.

-- name: awaits
-- ?1 id
-- gives (number, how many it still awaits, return_exceptions, the job that awaits it in turn); no
-- row if it awaits none
SELECT job.number, job.awaits, job.return_exceptions, job.gather
FROM job
CROSS JOIN held ON held.number = job.number AND held.why = 'arrivals'
WHERE job.id = ?

-- name: arrive
-- ?1 gathering job, ?2 gather_index, ?3 result
-- changes nothing if one has arrived at that gather_index
INSERT INTO arrival (job, gather_index, result) VALUES (?, ?, CAST(? AS TEXT)) ON CONFLICT DO NOTHING

-- name: count
-- ?1 how many it awaits more, ?2 how many more failed, ?3 how many more were cancelled, ?4 number
UPDATE job
SET awaits = awaits + ?, members_failed = members_failed + ?,
    members_cancelled = members_cancelled + ?
WHERE number = ?

-- name: make_due
-- ?1 now, ?2 sequence, ?3 number
-- gives (whether it stands in its lane itself, queue, scope, lane_priority) of the job
UPDATE job SET due = ?, sequence = ?
WHERE number = ?
RETURNING limits IS NULL AND fairness_key IS NULL, queue, scope, lane_priority

-- name: arrived
-- ?1 gathering job, ?2 gather_index
-- gives what has arrived there
SELECT CAST(result AS BLOB) FROM arrival WHERE job = ? AND gather_index = ?

-- name: withdraw
-- ?1 gathering job, ?2 gather_index
DELETE FROM arrival WHERE job = ? AND gather_index = ?

-- name: member
-- ?1 id
-- gives (gather, gather_index, retry_count) of a job that another may await
SELECT gather, gather_index, retry_count FROM job WHERE id = ? AND gather IS NOT NULL
