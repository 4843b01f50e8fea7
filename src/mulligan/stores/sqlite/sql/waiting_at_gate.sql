-- ?1 gate's key, ?2 a worker to leave out, ?3 now
-- gives (worker, address) of the gate's sleepers that are alive
SELECT w.worker, w.address
FROM waiting_gate AS g
JOIN waiting AS w ON w.worker = g.worker
JOIN worker ON worker.id = w.worker
WHERE g.key = ?
    AND w.asleep = 1 AND w.worker IS NOT ? AND worker.beat_at + worker.lease > ?
ORDER BY w.rowid
