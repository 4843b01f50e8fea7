-- ?1 queue, ?2 region, ?3 open, ?4 since, ?5 probes
INSERT INTO breaker (queue, region, open, since, probes) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (queue, region) DO UPDATE
SET open = excluded.open, since = excluded.since, probes = excluded.probes
