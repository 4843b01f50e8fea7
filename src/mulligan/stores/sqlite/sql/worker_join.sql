-- ?1 id, ?2 region, ?3 lease, ?4 now, ?5 the worker as JSON, ?6 1 if it joins anew
INSERT INTO worker (id, region, lease, beat_at, joined_at, body)
VALUES (?1, ?2, ?3, ?4, ?4, ?5)
ON CONFLICT (id) DO UPDATE
SET region = excluded.region, lease = excluded.lease, beat_at = excluded.beat_at,
    body = excluded.body,
    joined_at = CASE WHEN ?6 THEN excluded.joined_at ELSE joined_at END
