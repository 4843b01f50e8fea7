-- ?1 jobs, a JSON array
DELETE FROM attempt WHERE job IN (SELECT value FROM json_each(?))
