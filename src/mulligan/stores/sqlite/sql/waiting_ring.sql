-- ?1 workers, a JSON array
UPDATE waiting SET asleep = 0, rung = 1 WHERE worker IN (SELECT value FROM json_each(?))
