-- ?1 lanes, a JSON array of [queue, scope, lane_priority]
-- gives (index in it, due of the first job) for each lane that is not empty
SELECT lane, due
FROM (
    SELECT
        each.key AS lane,
        (
            SELECT job.due
            FROM job
            WHERE job.queue = json_extract(each.value, '$[0]')
                AND job.scope = json_extract(each.value, '$[1]')
                AND job.lane_priority = json_extract(each.value, '$[2]')
                AND job.status = 'pending' AND job.held = 0
            ORDER BY job.due, job.sequence
            LIMIT 1
        ) AS due
    FROM json_each(?1) AS each
)
WHERE due IS NOT NULL
