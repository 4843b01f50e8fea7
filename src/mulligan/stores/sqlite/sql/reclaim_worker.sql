-- ?1 worker to go on after
-- gives the next worker that holds a job
SELECT worker FROM running WHERE worker > ? ORDER BY worker LIMIT 1
