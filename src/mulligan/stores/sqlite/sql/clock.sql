-- The time of the last writer, by which processes find that their clocks differ.

-- name: last
-- gives the time, in microseconds
SELECT value FROM meta WHERE name = 'clock'

-- name: write
-- ?1 now, in microseconds
INSERT INTO meta (name, value) VALUES ('clock', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: renew_leases
-- ?1 now, ?2 the time of the last writer, ?3 now
-- renews the lease of each worker that was alive then, or that beat in the future
UPDATE worker SET beat_at = ? WHERE beat_at + lease >= ? OR beat_at > ?
