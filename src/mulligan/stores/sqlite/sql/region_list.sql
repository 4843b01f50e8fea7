-- ?1 now
-- gives (name, whether a worker of it is alive) in order
SELECT
    name,
    EXISTS (SELECT 1 FROM worker WHERE worker.region = region.name AND beat_at + lease > ?1)
FROM region
ORDER BY name
