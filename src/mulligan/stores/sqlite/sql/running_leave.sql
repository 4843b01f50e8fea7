-- ?1 places, a JSON array
DELETE FROM running WHERE place IN (SELECT value FROM json_each(?))
