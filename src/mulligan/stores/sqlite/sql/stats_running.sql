-- gives (queue, region of the worker, how many) of jobs that run
SELECT job.queue, coalesce(running.worker_region, job.region), count(*)
FROM running
CROSS JOIN job ON job.place = running.place
GROUP BY 1, 2
