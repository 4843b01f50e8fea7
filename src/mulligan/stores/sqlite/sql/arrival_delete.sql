-- ?1 gathering jobs, a JSON array
DELETE FROM arrival WHERE job IN (SELECT value FROM json_each(?))
