-- ?1 now
-- gives the workers that are noted as waiting, and have stopped beating
SELECT w.worker
FROM waiting AS w
LEFT JOIN worker AS alive ON alive.id = w.worker AND alive.beat_at + alive.lease > ?
WHERE alive.id IS NULL
