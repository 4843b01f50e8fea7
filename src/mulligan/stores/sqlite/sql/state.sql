-- ?1 id
-- gives the state of the job; no row if it is not stored
SELECT
    place, status, queue, region, priority, coalesce(unique_in, queue), unique_key,
    concurrency_key, gather, awaits
FROM jobs
WHERE id = ?
