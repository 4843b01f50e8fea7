-- ?1 a worker to leave out
-- gives (worker, address) of all who slept
UPDATE waiting SET asleep = 0, rung = 1
WHERE asleep = 1 AND worker IS NOT ?
RETURNING worker, address
