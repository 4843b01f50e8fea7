-- ?1 worker
UPDATE waiting SET asleep = 0, rung = 0 WHERE worker = ?
