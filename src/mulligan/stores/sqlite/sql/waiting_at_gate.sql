-- ?1 gate's key, ?2 now, ?3 a worker to leave out
-- gives (worker, address) of the gate's sleepers that are alive
SELECT w.worker, w.address
FROM waiting_gate AS g
JOIN waiting AS w ON w.worker = g.worker
JOIN worker ON worker.id = w.worker
WHERE g.key = ?1
    AND w.asleep = 1 AND w.worker IS NOT ?3 AND worker.beat_at + worker.lease > ?2
ORDER BY w.rowid
