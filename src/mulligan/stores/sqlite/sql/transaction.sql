-- What every operation may ask of the store's two counters.

-- name: reserve
-- ?1 how many sequence numbers to reserve
-- gives the last of them
UPDATE meta SET value = value + ? WHERE name = 'sequence' RETURNING value

-- name: anyone_asleep
-- gives 1 if any worker sleeps
SELECT EXISTS (SELECT 1 FROM sleeper WHERE asleep = 1)

-- name: next_epoch
UPDATE meta SET value = value + 1 WHERE name = 'epoch'
