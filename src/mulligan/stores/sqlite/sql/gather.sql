-- Fan-in.

-- name: awaits
-- ?1 id
-- gives how many it still awaits; no row if it awaits none
SELECT job.awaits
FROM job
CROSS JOIN held ON held.number = job.number AND held.why = 'arrivals'
WHERE job.id = ?

-- name: arrive
-- ?1 gathering job, ?2 gather_index, ?3 result
-- changes nothing if one has arrived at that gather_index
INSERT INTO arrival (job, gather_index, result) VALUES (?, ?, CAST(? AS TEXT)) ON CONFLICT DO NOTHING

-- name: count_down
-- ?1 how many it still awaits, ?2 id
UPDATE job SET awaits = ? WHERE id = ?

-- name: make_due
-- ?1 now, ?2 sequence, ?3 id
-- gives (number, queue, scope, lane_priority) of the job and the lane that it is meant for
UPDATE job SET awaits = 0, due = ?, sequence = ?
WHERE id = ?
RETURNING number, queue, scope, lane_priority

-- name: awaiting
-- ?1 id
-- gives (number, the job that awaits it in turn); no row if it awaits none
SELECT job.number, job.gather
FROM job
CROSS JOIN held ON held.number = job.number AND held.why = 'arrivals'
WHERE job.id = ?
