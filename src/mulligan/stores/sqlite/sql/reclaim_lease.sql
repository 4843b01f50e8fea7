-- ?1 worker that reclaims, ?2 now, ?3 places, a JSON array
-- The attempt stays that of the worker that lost it.
UPDATE running SET token = token + 1, worker = ?, leased_at = ?
WHERE place IN (SELECT value FROM json_each(?))
