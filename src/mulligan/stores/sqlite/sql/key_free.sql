-- ?1 places, a JSON array
-- Others may have the unique keys of these jobs.
UPDATE job SET key_queue = NULL
WHERE place IN (SELECT value FROM json_each(?)) AND key_queue IS NOT NULL
