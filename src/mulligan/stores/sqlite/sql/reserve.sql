-- ?1 how many sequence numbers to reserve
-- gives the last of them
UPDATE meta SET value = value + ?1 WHERE name = 'sequence' RETURNING value
