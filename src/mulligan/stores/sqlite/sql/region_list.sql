-- ?1 now
-- gives (region, a queue that a live worker of it serves, or NULL), in order of region
SELECT DISTINCT region.name, served.value
FROM region
LEFT JOIN worker ON worker.region = region.name AND worker.beat_at + worker.lease > ?
LEFT JOIN json_each(worker.body, '$.queues') AS served
ORDER BY region.name
