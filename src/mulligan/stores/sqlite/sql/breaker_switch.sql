-- ?1 queue, ?2 region, ?3 open, ?4 since, ?5 probes, ?6 probed_at
INSERT INTO breaker (queue, region, open, since, probes, probed_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, region) DO UPDATE
SET open = excluded.open, since = excluded.since, probes = excluded.probes,
    probed_at = excluded.probed_at
