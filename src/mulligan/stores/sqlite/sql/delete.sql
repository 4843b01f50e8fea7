-- ?1 places, a JSON array
DELETE FROM job WHERE place IN (SELECT value FROM json_each(?1))
