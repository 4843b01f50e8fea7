-- ?1 how many sequence numbers to reserve
-- gives the last of them
UPDATE meta SET value = value + ? WHERE name = 'sequence' RETURNING value
