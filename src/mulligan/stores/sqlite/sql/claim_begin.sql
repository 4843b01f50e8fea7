-- ?1 and ?2 worker
-- gives (epoch, when the worker's lease runs out, then its row of `waiting`), NULL where unknown
SELECT
    meta.value, worker.beat_at + worker.lease,
    waiting.asleep, waiting.rung, waiting.until, waiting.address, waiting.plan
FROM meta
LEFT JOIN worker ON worker.id = ?
LEFT JOIN waiting ON waiting.worker = ?
WHERE meta.name = 'epoch'
