-- gives (queue, region of the worker, how many) of jobs that run
SELECT queue, coalesce(worker_region, region), count(*)
FROM job
WHERE status = 'processing'
GROUP BY 1, 2
