-- ?1 ids, a JSON array
-- gives (id, place, its token if it runs, committed, concurrency_key, gather, gather_index, queue,
-- scope, lane_priority, due) of those that are stored
SELECT
    job.id, job.place, running.token,
    CASE WHEN ended.status = 'done' THEN ended.token ELSE job.committed END,
    job.concurrency_key, job.gather, job.gather_index,
    job.queue, job.scope, job.lane_priority, job.due
FROM job
LEFT JOIN running ON running.place = job.place
LEFT JOIN ended ON ended.place = job.place
WHERE job.id IN (SELECT value FROM json_each(?))
