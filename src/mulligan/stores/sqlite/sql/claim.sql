-- What a claim begins with.

-- name: begin
-- ?1 and ?2 worker
-- gives (epoch, when the worker's lease runs out, 1 if any lane has lines, then its row of
-- `sleeper`), NULL where unknown
SELECT
    CAST(coalesce(meta.value, 0) AS INTEGER), worker.beat_at + worker.lease,
    EXISTS (SELECT 1 FROM line) OR EXISTS (SELECT 1 FROM fairness_key),
    sleeper.asleep, sleeper.woken, sleeper.until, sleeper.socket, sleeper.plan
FROM (SELECT 1)
LEFT JOIN meta ON meta.name = 'epoch'
LEFT JOIN worker ON worker.id = ?
LEFT JOIN sleeper ON sleeper.worker = ?
