-- What readers ask.

-- name: get
-- :id, and whether to give :bodies and results
-- gives the fields of Job
SELECT {job} FROM jobs WHERE id = :id

-- name: statuses
-- ?1 ids, a JSON array
-- gives (id, status) of those that are stored
SELECT id, status FROM jobs WHERE id IN (SELECT value FROM json_each(?))

-- name: number
-- ?1 id
-- gives its number
SELECT number FROM job WHERE id = ?

-- name: history
-- ?1 job, ?2 limit
-- gives the newest attempts, newest first: the fields of Attempt
SELECT {attempt} FROM attempt WHERE job = ? ORDER BY id DESC LIMIT ?

-- name: arrivals
-- ?1 gathering job
-- gives (gather_index, result) in order
SELECT gather_index, CAST(result AS BLOB) FROM arrival WHERE job = ? ORDER BY gather_index

-- fragment: selected
(:queue IS NULL OR queue = :queue) AND (:region IS NULL OR region = :region)
    AND (:task IS NULL OR task = :task) AND number < :below AND number >= :floor
    AND (
        :text IS NULL
        OR instr(
            (
                SELECT attempt.type || ': ' || attempt.message FROM attempt
                WHERE attempt.job = jobs.id ORDER BY attempt.id DESC LIMIT 1
            ), :text
        ) > 0
    )
ORDER BY number DESC
LIMIT :limit OFFSET :skip

-- name: page
-- :status, :queue, :region, :task and :text, each NULL for any, numbers :below this and not under
-- :floor, :limit, how many to :skip, and whether to give :bodies and results
-- gives (number, then the fields of Job), newest first
SELECT number, {job}
FROM jobs
WHERE (:status IS NULL OR status = :status) AND {selected}

-- name: page_ended
-- :queues to look in, a JSON array, :status, which is not NULL, and the rest as page
-- as page, for the few that failed or were cancelled among many that are done
SELECT number, {job}
FROM jobs
WHERE
    number IN (
        SELECT number FROM ended
        WHERE queue IN (SELECT value FROM json_each(:queues)) AND status = :status
    )
    AND {selected}

-- name: page_running
-- :status, which is 'processing', and the rest as page
-- as page, for the few that run
SELECT number, {job}
FROM jobs
WHERE number IN (SELECT number FROM running) AND :status = 'processing' AND {selected}

-- name: lanes
-- ?1 now
-- gives (queue, scope, lane_priority, ready, all, first due) of lanes that are not empty, however many
SELECT queue, scope, lane_priority, sum(due <= ?), count(*), min(due)
FROM lane
GROUP BY queue, scope, lane_priority

-- name: held
-- ?1 now
-- gives the same for jobs that stand in lines
SELECT queue, scope, lane_priority, sum(due <= ?), count(*), min(due)
FROM held
WHERE why = 'line'
GROUP BY queue, scope, lane_priority

-- name: running
-- gives (queue, region of the worker, how many) of jobs that run
SELECT job.queue, coalesce(running.worker_region, job.region), count(*)
FROM running
CROSS JOIN job ON job.number = running.number
GROUP BY 1, 2

-- name: delayed
-- ?1 and ?2 now
-- gives (queue, all, due now, due within an hour) of jobs that were put off
SELECT queue, count(*), sum(due <= ?), sum(due <= ? + 3600)
FROM (
    SELECT queue, due FROM lane WHERE delayed = 1
    UNION ALL
    SELECT queue, due FROM held WHERE delayed = 1
)
GROUP BY queue

-- name: gathering
-- gives (queue, how many) of jobs that await others
SELECT queue, count(*) FROM held WHERE why = 'arrivals' GROUP BY queue

-- name: workers
-- gives (beat_at, joined_at, lease, running jobs, id, region, worker as JSON) in the order of joining
SELECT
    CAST(beat_at AS REAL), CAST(joined_at AS REAL), CAST(lease AS REAL),
    (SELECT count(*) FROM running WHERE running.worker = worker.id),
    id, region, CAST(body AS BLOB)
FROM worker
ORDER BY number

-- name: ended_group
-- :queue, :status to go on after
-- gives the next (queue, status) of which jobs have ended
-- Two steps, since SQLite would walk over all that equal a pair to find what is greater.
SELECT * FROM (
    SELECT queue, status FROM ended WHERE queue = :queue AND status > :status ORDER BY status LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT queue, status FROM ended WHERE queue > :queue ORDER BY queue, status LIMIT 1
)
LIMIT 1

-- name: ended_in_group
-- ?1 queue, ?2 status, ?3 limit
-- gives how many jobs have ended so, up to the limit
SELECT count(*) FROM (SELECT 1 FROM ended WHERE queue = ? AND status = ? LIMIT ?)

-- name: all_ended
-- gives how many there are; SQLite counts a whole table by its pages, in a tenth of the time
SELECT count(*) FROM ended

-- name: next_lane
-- :queue, :scope, :priority to go on after
-- gives the next lane that is not empty, as ended_group does
SELECT * FROM (
    SELECT queue, scope, lane_priority FROM lane
    WHERE queue = :queue AND scope = :scope AND lane_priority > :priority
    ORDER BY lane_priority LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT queue, scope, lane_priority FROM lane
    WHERE queue = :queue AND scope > :scope
    ORDER BY scope, lane_priority LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT queue, scope, lane_priority FROM lane
    WHERE queue > :queue
    ORDER BY queue, scope, lane_priority LIMIT 1
)
LIMIT 1

-- name: lane_times
-- :queue, :scope, :priority, :now
-- gives (how many are not due yet, first due)
SELECT
    (
        SELECT count(*) FROM lane
        WHERE queue = :queue AND scope = :scope AND lane_priority = :priority AND due > :now
    ),
    (
        SELECT due FROM lane
        WHERE queue = :queue AND scope = :scope AND lane_priority = :priority
        ORDER BY due LIMIT 1
    )

-- name: in_lane
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 limit
-- gives how many jobs stand in the lane, up to the limit
SELECT count(*) FROM (
    SELECT 1 FROM lane WHERE queue = ? AND scope = ? AND lane_priority = ? LIMIT ?
)

-- name: in_lanes
-- gives how many stand in all lanes, as all_ended does
SELECT count(*) FROM lane

-- name: depth
-- :queue, :scope, :priority, :now, :limit
-- gives how many could start, up to the limit; not those in a line that waits for a limit
SELECT count(*)
FROM (
    SELECT 1 FROM lane
    WHERE queue = :queue AND scope = :scope AND lane_priority = :priority AND due <= :now
    UNION ALL
    SELECT 1
    FROM line
    CROSS JOIN held ON held.why = 'line' AND held.queue = line.queue AND held.scope = line.scope
        AND held.lane_priority = line.lane_priority AND held.line = line.line
    WHERE line.queue = :queue AND line.scope = :scope AND line.lane_priority = :priority
        AND line.waits_for IS NULL AND held.due <= :now
    UNION ALL
    SELECT 1
    FROM fairness_key AS of_key
    CROSS JOIN held ON held.why = 'line' AND held.queue = of_key.queue
        AND held.scope = of_key.scope AND held.lane_priority = of_key.lane_priority
        AND held.line = '.' || of_key.key
    WHERE of_key.queue = :queue AND of_key.scope = :scope AND of_key.lane_priority = :priority
        AND of_key.line_due IS NOT NULL AND held.due <= :now
    LIMIT :limit
)

-- name: ahead
-- ?1 id
-- gives how many jobs stand before it in its lane, 0 if it stands in none; no row if it is not stored
SELECT
    CASE WHEN mine.status = 'pending' AND mine.awaits = 0 THEN (
        SELECT count(*) FROM lane
        WHERE queue = mine.queue AND scope = mine.scope AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    ) + (
        SELECT count(*) FROM held
        WHERE why = 'line'
            AND queue = mine.queue AND scope = mine.scope AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    ) ELSE 0 END
FROM jobs AS mine
WHERE mine.id = ?

-- name: tail
-- :queue, :scope, :priority, :due
-- gives the id of the last job in the lane, or in a line of it, that was due by then
SELECT job.id
FROM (
    SELECT * FROM (
        SELECT number, due, sequence FROM lane
        WHERE queue = :queue AND scope = :scope AND lane_priority = :priority AND due <= :due
        ORDER BY due DESC, sequence DESC
        LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT number, due, sequence FROM held
        WHERE why = 'line' AND queue = :queue AND scope = :scope AND lane_priority = :priority
            AND due <= :due
        ORDER BY due DESC, sequence DESC
        LIMIT 1
    )
) AS last
CROSS JOIN job ON job.number = last.number
ORDER BY last.due DESC, last.sequence DESC
LIMIT 1

-- name: records
-- :job, and the length of the longest step or checkpoint to give (:most), or NULL
-- gives (key, token, number, at, value or NULL, its length), oldest first
SELECT
    key, token, number, at,
    CASE WHEN :most IS NULL OR length(value) <= :most
              OR NOT (key = 'checkpoint' OR key GLOB 'step:*')
         THEN value END,
    length(value)
FROM recorded
WHERE job = :job
ORDER BY token, number, key

-- name: schedules
-- gives (name, record) of every schedule
SELECT name, record FROM schedule ORDER BY name
