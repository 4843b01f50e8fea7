-- What a claim begins with.

-- name: begin
-- ?1 and ?2 worker
-- gives (epoch, when the worker's lease runs out, then its row of `sleeper`), NULL where unknown
SELECT
    meta.value, worker.beat_at + worker.lease,
    sleeper.asleep, sleeper.woken, sleeper.until, sleeper.socket, sleeper.plan
FROM meta
LEFT JOIN worker ON worker.id = ?
LEFT JOIN sleeper ON sleeper.worker = ?
WHERE meta.name = 'epoch'
