-- ?1 id, ?2 region, ?3 lease, ?4 and ?5 now, ?6 the worker as JSON, ?7 1 if it joins anew
INSERT INTO worker (id, region, lease, beat_at, joined_at, body)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET region = excluded.region, lease = excluded.lease, beat_at = excluded.beat_at,
    body = excluded.body,
    joined_at = CASE WHEN ? THEN excluded.joined_at ELSE joined_at END
